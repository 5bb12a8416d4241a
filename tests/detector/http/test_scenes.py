"""The console in a real browser, in states that a real daemon reaches rarely or slowly (see `scene`)."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from detector.events.model import Event, NodeRecord
from detector.http import frames
from detector.network.network import Network
from detector.pipeline.signal_capture import COARSE, FINE, Block
from detector.storage.database import StateUnavailable
from tests.browser import chromium, console, until
from tests.detector import rig
from tests.detector.http.scene import NOW, PER_S, Scene

PHASE = "document.getElementById('phase')"
CONTRAST = Path(__file__).with_name("contrast.js").read_text()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture(autouse=True)
def _quick_frames(monkeypatch: pytest.MonkeyPatch, browser: Any) -> None:
    monkeypatch.setattr(frames, "EVERY_S", 0.1)
    browser.get("about:blank")
    console(browser)  # what the page of an earlier scene said of its end


@pytest.fixture(scope="module")
def ring() -> Network:
    """A hundred sensors in a circle."""
    return circle(100)


@pytest.fixture
def scene(tmp_path: Path, ring: Network) -> Iterator[Scene]:
    with Scene(tmp_path / "state", ring) as made:
        yield made


def circle(count: int) -> Network:
    names = [f"n{i}" for i in range(count)]
    ring = Network.from_edges([(names[i], names[(i + 1) % count]) for i in range(count)], names)
    angle = 2 * np.pi * np.arange(count) / count
    return dataclasses.replace(ring, positions=np.stack([np.cos(angle), np.sin(angle)], axis=1))


def incident(name: str, begin: float, end: float | None, nodes: tuple[str, ...] = ("n5",)) -> list[Event]:
    """Its opening and, if it has ended, its end."""
    members = [NodeRecord(name=one, state="alarmed", onset=begin, peak=9.0) for one in nodes]
    given: dict[str, Any] = {
        "incident": name, "nodes": members, "opened": begin + 5, "onset": begin, "peak": 12.0,
        "threshold": 9.0, "node_threshold": 5.0, "summary": f"{name}: n5 is higher",
    }  # fmt: skip
    made = [
        Event(
            id=f"{name}-1", sequence=1, event="incident.opened", time=begin + 5, severity="critical", **given
        )
    ]
    if end is not None:
        made.append(Event(
            id=f"{name}-2", sequence=2, event="incident.resolved", time=end, severity="critical",
            resolution="restored", **given,
        ))  # fmt: skip
    return made


def shown(browser: Any) -> tuple[str, str, str]:
    """The first line: its kind, the mark before it, and its words."""
    look = f"const one = {PHASE}, mark = getComputedStyle(one, '::before').content;"
    kind, mark, words = browser.execute_script(f"{look} return [one.className, mark, one.textContent]")
    return kind.removeprefix("phase is-"), mark.strip('" '), words


def test_nothing_but_a_network_that_is_watched_looks_quiet(browser: Any, scene: Scene) -> None:
    browser.get(scene.address)
    until(browser, f"{PHASE}.textContent === 'watching, 0 incidents open'")
    assert shown(browser)[:2] == ("quiet", "✓")
    looks = [shown(browser)]

    def look(words: str) -> None:
        until(browser, f"{PHASE}.textContent === {words!r}")
        looks.append(shown(browser))

    scene.states("silent", 3)
    look("watching 97 of 100 sensors, 0 incidents open")
    scene.states("silent", 99)
    look("only 1 of 100 sensors watched, 0 incidents open")
    assert "hardly watching" in browser.title
    scene.states("out_of_range")
    look("no sensor is watched")
    scene.states("watching")
    scene.queue = 0.85
    look("overloaded, 0 incidents open")
    assert "85 % full" in browser.execute_script("return document.getElementById('phase-more').textContent")
    scene.queue = 0.0
    scene.stage = ("thresholds", 0.4)
    look("calibrating")
    scene.stage = None
    scene.change(phase="learning", progress=0.25)
    look("learning")
    assert "25 %" in browser.execute_script("return document.getElementById('phase-more').textContent")
    scene.change(phase="watching", watermark=None)
    look("no data yet")
    scene.change(watermark=NOW)
    scene.stop_data(31.0)
    look("no data arriving: changes cannot be detected")
    assert [kind for kind, _, _ in looks].count("quiet") == 1
    assert [mark for _, mark, _ in looks].count("✓") == 1
    assert {mark for kind, mark, _ in looks if kind in ("overloaded", "still", "empty", "blind")} == {"✗"}
    assert console(browser) == []


def test_a_sample_a_minute_is_not_still(browser: Any, scene: Scene) -> None:
    """Between two samples of a slow network nothing is wrong; after three steps without any, something is."""
    scene.step = 60.0
    scene.stop_data(100.0)
    browser.get(scene.address)
    until(browser, f"{PHASE}.textContent === 'watching, 0 incidents open'")
    scene.stop_data(181.0)
    until(browser, f"{PHASE}.textContent.startsWith('no data arriving')")
    scene.resume_data()
    until(browser, f"{PHASE}.textContent === 'watching, 0 incidents open'")


def test_pages_that_were_left_keep_no_connection(browser: Any, scene: Scene) -> None:
    """Browsers open six to one host: the page that is opened after many others is not kept waiting."""
    for path in ("", "silences", "audit", "incidents/none", "nodes/n1", "") * 2:
        browser.get(scene.address + path)
        until(browser, "document.getElementById('connection').textContent === 'live'")
    assert scene.metrics_now("event_clients") <= 2, "the one that is open, and one that is being closed"
    browser.back()
    until(browser, "document.getElementById('connection').textContent === 'live'")
    console(browser)  # there is no such incident


def test_rates_are_right_from_the_first_seconds(browser: Any, scene: Scene) -> None:
    """Every number that is shown, from the first on."""
    browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": """
        window.rates = [];
        setInterval(() => {
          for (const row of document.querySelectorAll('#figures div'))
            if (row.textContent.startsWith('samples/s')) window.rates.push(row.lastChild.textContent);
        }, 20);
    """})  # fmt: skip
    browser.get(scene.address)
    until(browser, "window.rates.filter((one) => one !== '–').length >= 50")
    rates = [
        float(one.replace(",", "")) for one in browser.execute_script("return window.rates") if one != "–"
    ]
    assert all(0.5 * PER_S < rate < 2.0 * PER_S for rate in rates), rates


def test_incidents_on_the_timeline(browser: Any, scene: Scene) -> None:
    """Bars in order of time, as long as the incidents were; those that overlap in lanes of their own."""
    browser.get(scene.address)
    scene.put(*incident("first", NOW - 1000, NOW - 900), *incident("long", NOW - 600, NOW - 200),
              *incident("within", NOW - 500, NOW - 400), *incident("open", NOW - 100, None))  # fmt: skip
    until(browser, "document.querySelectorAll('#timeline a').length === 4")
    bars = {
        href.rsplit("/", 1)[1]: box
        for href, box in browser.execute_script(
            "return [...document.querySelectorAll('#timeline a')]"
            ".map((one) => [one.href, one.getBoundingClientRect()])"
        )
    }
    frame = browser.execute_script("return document.getElementById('timeline').getBoundingClientRect()")
    for box in bars.values():
        assert frame["left"] <= box["left"] < box["right"] <= frame["right"] + 1
    assert bars["first"]["right"] < bars["long"]["left"] < bars["within"]["left"] < bars["open"]["left"]
    assert bars["long"]["width"] == pytest.approx(4 * bars["first"]["width"], rel=0.1)
    assert bars["within"]["top"] > bars["long"]["top"] == bars["first"]["top"]
    words = browser.execute_script("return document.getElementById('timeline-words').textContent")
    assert words.startswith("4 incidents from ")
    browser.execute_script("document.querySelector('#timeline a[href$=within]').click()")
    until(browser, "location.pathname === '/incidents/within'")
    until(
        browser,
        "document.getElementById('incident-state').textContent.includes('back at the earlier baseline')",
    )
    assert console(browser) == []


@pytest.mark.parametrize("count", [1000, 10_000])
def test_a_large_network_opens_group_by_group(browser: Any, tmp_path: Path, count: int) -> None:
    """By keyboard, from the group where it matters most; a node that is found by name is in its group."""
    side = round(count**0.5)
    places = np.array([(i % side, i // side) for i in range(count)], float)
    network = Network.from_positions([f"n{i}" for i in range(count)], places, k=4)
    with Scene(tmp_path / "state", network) as scene:
        scene.states("alarmed", 1)
        browser.get(scene.address)
        until(browser, "document.getElementById('fold').textContent === 'All nodes'")
        until(browser, f"document.getElementById('map-summary').textContent.startsWith('{count:,} sensors')")
        assert press(browser, "#map", "ArrowRight").startswith("n0 and "), "the group of the alarmed node"
        heard = {press(browser, "#map", key) for key in ("ArrowRight", "ArrowUp", "ArrowRight")}
        assert len(heard) == 3
        assert all(" and " in one for one in heard)
        assert "nodes and those next to them" in press(browser, "#map", "Enter")
        until(browser, "document.getElementById('fold').textContent === 'Back to the groups'")
        browser.execute_script("document.getElementById('fold').click()")
        browser.execute_script("document.getElementById('fold').click()")
        until(browser, "document.getElementById('fold').textContent === 'Fold into groups'")
        # Where the sensors really are: what lies to the right and above is the next of its row and column.
        assert press(browser, "#map", "ArrowRight").startswith("n0: changed")
        assert press(browser, "#map", "ArrowRight").startswith("n1: ")
        assert press(browser, "#map", "ArrowUp").startswith(f"n{side + 1}: ")
        browser.execute_script("document.getElementById('fold').click()")
        find(browser, "#find-name").send_keys(f"n{count - 1}", "\n")
        until(browser, f"document.getElementById('node-title').textContent === 'n{count - 1}'")
        browser.back()
        until(browser, "document.getElementById('fold').textContent === 'Back to the groups'")
        assert console(browser) == []


def test_the_neighbourhood_of_an_incident(browser: Any, tmp_path: Path) -> None:
    """Of a thousand sensors its page shows the members and those that they are linked to."""
    with Scene(tmp_path / "state", circle(1000)) as scene:
        scene.put(*incident("one", NOW - 60, NOW - 10, ("n500",)))  # has ended: the page asks for it once
        browser.get(f"{scene.address}incidents/one")
        until(browser, "!document.getElementById('incident-near').hidden")
        until(browser, "document.getElementById('incident-map').width > 300")
        keys = ["ArrowRight", "ArrowUp", "ArrowLeft", "ArrowLeft", "ArrowDown", "ArrowRight"] * 2
        heard = {press(browser, "#incident-map", key).split(":")[0] for key in keys}
        assert {"n499", "n500", "n501"} >= heard - {""}, "nothing is said where there is nothing further"
        assert len(heard - {""}) > 1
        assert console(browser) == []


def test_an_incident_counts_its_nodes_as_its_summary_does(browser: Any, scene: Scene) -> None:
    """On its card and its page, whatever state they are in; a begin that is not known has its reason."""
    members = [NodeRecord(name=f"n{v}", state="alarmed", changed=True) for v in range(5)]
    members += [NodeRecord(name="n5", state="recovered", changed=True)]
    members += [NodeRecord(name=f"n{v}", state="suspected", changed=False) for v in (6, 7)]
    members += [NodeRecord(name="n8", state="silent", changed=False)]
    reason = "not known: no sample in the windows speaks for a change by itself"
    scene.put(Event(
        id="i1-1", sequence=1, event="incident.opened", time=NOW, severity="warning", incident="i1",
        nodes=members, opened=NOW, summary="6 nodes around n0 changed, noticed at 08:00:00 UTC",
        details={"onset": reason},
    ))  # fmt: skip
    browser.get(scene.address)
    chips = "document.querySelector('#incidents-open .chips')"
    until(browser, f"{chips} && {chips}.textContent.startsWith('6 nodes changed, 3 possibly: n0')")
    browser.get(f"{scene.address}incidents/i1")
    facts = "document.getElementById('incident-facts').textContent"
    until(browser, f"{facts}.includes('6 nodes changed, 3 possibly')")
    until(browser, f"{facts}.includes('{reason}')")


def test_lines_of_the_statistics_are_told_apart(browser: Any, scene: Scene) -> None:
    """In the legend no two lines have the same mark, with eight members as well."""
    members = tuple(f"n{i}" for i in range(8))
    scene.put(*incident("many", NOW - 60, None, members))
    scene.blocks.append(block(scene, FINE, NOW - 120, 1.0, 110))
    browser.get(f"{scene.address}incidents/many")
    until(browser, "document.querySelectorAll('#incident-statistic .u-series').length >= 8")
    script = """
        const rows = [...document.querySelectorAll('#incident-statistic .u-series')].slice(1);
        const of = (one, part) => one.querySelector(`.u-${part}`);
        return rows.map((one) => [of(one, 'label').textContent, of(one, 'marker').style.border]);
    """
    marks = dict(browser.execute_script(script))
    assert {"pooled, largest", "threshold of the network", "threshold of a node"} < set(marks)
    assert len(set(marks.values())) == len(marks), marks


def test_span_of_the_history(browser: Any, scene: Scene) -> None:
    """Hours in fine rows, days in coarse ones."""
    scene.blocks.append(block(scene, FINE, NOW - 3 * 3600, 30.0, 360))
    scene.blocks += [block(scene, COARSE, NOW - day * 86400, 3600.0, 24) for day in range(6, 0, -1)]
    browser.get(f"{scene.address}nodes/n7")
    chart = "document.querySelector('#history-charts [data-to]')"
    until(browser, f"{chart} !== null")
    facts = "document.getElementById('history-facts').textContent"
    for hours, width in (("1", "30 s"), ("168", "1 h"), ("3", "30 s")):
        seconds = 3600 * int(hours)
        browser.execute_script(
            "const one = document.getElementById('history-span'); one.value = arguments[0];"
            "one.dispatchEvent(new Event('change'))", str(seconds),
        )  # fmt: skip
        long = min(seconds, 6 * 86400)
        length = f"Number({chart}.dataset.to) - Number({chart}.dataset.from)"
        until(browser, f"Math.abs({length} - {long}) < 0.05 * {long}")
        until(browser, f"{facts}.includes('every {width}')")
    assert console(browser) == []


def test_exports_are_files(browser: Any, scene: Scene, tmp_path: Path) -> None:
    scene.put(*incident("first", NOW - 1000, NOW - 900))
    scene.blocks.append(block(scene, FINE, NOW - 120, 1.0, 110))
    kept = {"behavior": "allow", "downloadPath": str(tmp_path / "kept")}
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", kept)
    browser.get(scene.address)
    until(browser, "document.getElementById('ended-summary').textContent === 'Ended (1)'")
    for button, file in (("export-csv", "incidents.csv"), ("export-json", "incidents.jsonl")):
        browser.execute_script(f"document.getElementById('{button}').click()")
        rig.wait_for((tmp_path / "kept" / file).exists, 30.0, file)
    with (tmp_path / "kept" / "incidents.csv").open() as found:
        assert [row["incident"] for row in csv.DictReader(found)] == ["first"]
    browser.get(f"{scene.address}nodes/n7")
    browser.execute_script("document.getElementById('history-export').click()")
    rig.wait_for((tmp_path / "kept" / "history.csv").exists, 30.0, "history.csv")
    assert len((tmp_path / "kept" / "history.csv").read_text().splitlines()) == 111


def test_maintenance_windows_in_the_table(browser: Any, tmp_path: Path, ring: Network) -> None:
    """They come from the configuration, so there is no button to end them; one in force says until when."""
    windows = [
        {"start": "2027-01-15T07:30", "lasts": "1h", "every": "day", "nodes": ["n1*"], "reason": "flushing"},
        {"start": "2001-01-01T00:00", "lasts": "1h", "nodes": ["n7"], "reason": "long ago"},
    ]
    with Scene(tmp_path / "state", ring, {"maintenance": windows}) as scene:
        browser.get(f"{scene.address}silences")
        until(browser, "document.querySelectorAll('#silences-list tr').length === 2")
        rows = browser.execute_script(
            "return [...document.querySelectorAll('#silences-list tr')].map((one) => one.innerText)"
        )
        assert "active" in rows[0]
        assert "flushing" in rows[0]
        assert "every day; until 2027-01-15 08:30:00 UTC" in rows[0]
        assert "configuration" in rows[0]
        assert "ended" in rows[1]
        assert browser.execute_script("return document.querySelectorAll('#silences-list button').length") == 0


def test_messages_are_seen(browser: Any, scene: Scene) -> None:
    """What goes wrong is shown to everybody, not only read out."""
    browser.get(scene.address)
    until(browser, "document.getElementById('map-summary').textContent.startsWith('100 sensors')")
    assert not find(browser, "#notice").is_displayed() or find(browser, "#notice").text == ""
    find(browser, "#find-name").send_keys("<b>nobody</b>", "\n")
    until(browser, "document.getElementById('notice').innerText.includes('contains “<b>nobody</b>”')")
    box = find(browser, "#notice").rect
    assert box["width"] > 100
    assert box["height"] > 20
    find(browser, "#notice button").click()
    until(browser, "document.getElementById('notice').children.length === 0")

    async def refused(limit: int) -> Any:
        raise StateUnavailable("the disk is full")

    scene.incidents = refused  # type: ignore[method-assign]
    browser.execute_script("document.getElementById('export-csv').click()")
    until(browser, "document.getElementById('notice').innerText.includes('the disk is full')")
    assert browser.execute_script("return document.getElementById('notice').getAttribute('role')") == "alert"
    console(browser)  # the 503 is told there


@pytest.mark.parametrize(("width", "dark"), [(375, True), (375, False), (1280, True), (1280, False)])
def test_no_overflow_and_readable(browser: Any, scene: Scene, width: int, dark: bool) -> None:
    """On phones and screens, light and dark: nothing to scroll sideways, and contrast of at least 4.5."""
    scene.put(
        *incident("first", NOW - 1000, NOW - 900), *incident("open", NOW - 100, None, ("n5", "n6" * 40))
    )
    scene.blocks.append(block(scene, FINE, NOW - 120, 1.0, 110))
    scene.states("stuck", 4)
    metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    for path, ready in (
        ("", "document.querySelectorAll('#incidents-open li').length > 0"),
        ("incidents/open", "document.querySelectorAll('#incident-statistic canvas').length > 0"),
        ("nodes/n5", "document.querySelectorAll('#history-charts canvas').length > 0"),
        ("silences", "document.getElementById('silence-reason') !== null"),
        ("audit", "document.querySelectorAll('#audit-list tr').length > 0"),
    ):
        browser.get(scene.address + path)
        until(browser, f"{PHASE}.textContent.startsWith('watching 96 of 100')")
        until(browser, ready)
        browser.execute_script("for (const one of document.querySelectorAll('details')) one.open = true")
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width, path
        seen, faint = browser.execute_script(CONTRAST)
        assert seen > 20, path
        assert faint == [], path


def find(browser: Any, selector: str) -> Any:
    return browser.find_element("css selector", selector)


def press(browser: Any, selector: str, key: str) -> str:
    """Type a key on the map; what the screen reader is told."""
    script = """
        const [board, spoken] = [document.querySelector(arguments[0]), document.getElementById('spoken')];
        const typed = { key: arguments[1], bubbles: true, cancelable: true };
        spoken.textContent = '';
        board.dispatchEvent(new KeyboardEvent('keydown', typed));
        return spoken.textContent;
    """
    return str(browser.execute_script(script, selector, key))


def block(scene: Scene, tier: int, begin: float, width: float, rows: int) -> Block:
    """Signals of all nodes; a row is mean, lowest, highest, and both statistics."""
    names = scene.view.names
    wave = 20 + np.sin(np.arange(rows))[:, None] + np.arange(len(names))
    values = np.stack([wave, wave - 1, wave + 1, wave / 4, wave / 3], axis=2).astype(np.float32)
    return Block(tier, begin, width, tuple(names), values)
