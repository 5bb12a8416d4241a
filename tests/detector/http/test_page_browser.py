"""The console in a real browser: it loads, lives, is clicked, answers; hostile names stay text."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from detector.storage.database import FILE
from tests import servers
from tests.browser import chromium, console, until
from tests.detector import rig
from tests.detector.http.page_rig import NODES, Feed, settings

HOSTILE = NODES[0]
NAMED_ROLES = ("button", "link", "textbox", "combobox", "searchbox", "application", "dialog")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture(scope="module")
def feed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Feed]:
    folder = tmp_path_factory.mktemp("page")
    with rig.Service(settings(folder)) as service:
        yield Feed(service.wait_ready())


def find(browser: Any, selector: str) -> Any:
    return browser.find_element("css selector", selector)


def text(browser: Any, selector: str) -> str:
    return str(find(browser, selector).text)


def address(feed: Feed) -> str:
    return f"http://127.0.0.1:{feed.service.port}/"


def test_life_of_an_incident(browser: Any, feed: Feed) -> None:
    """No data, learning, watching; an incident opens by itself, is labelled, discussed, accepted."""
    browser.get(address(feed))
    until(browser, "document.getElementById('phase').textContent === 'no data yet'")
    feed.push(20)
    until(browser, "document.getElementById('phase').textContent === 'learning'")
    assert find(browser, "#learning").is_displayed()
    assert "learning 8" in text(browser, "#legend")
    feed.learn()
    until(browser, "document.getElementById('phase').textContent.startsWith('watching')", 30)
    until(browser, "document.getElementById('legend').textContent.includes('watching 8')")
    assert not find(browser, "#learning").is_displayed()
    until(browser, "document.getElementById('promise').textContent.includes('1 per 500 ticks')")
    assert "up" in text(browser, "#sources")

    record = feed.incident(HOSTILE)
    card = f"#incidents-open li[data-record^='{record['incident']}']"
    until(browser, f'document.querySelector("{card}") !== null')
    until(browser, "document.getElementById('alerted').textContent.startsWith('New incident')")
    until(browser, "document.title.startsWith('(1)')")
    until(browser, f'/^\\d nodes? changed/.test(document.querySelector("{card} .chips").textContent)')
    chip = next(one for one in browser.find_elements("css selector", f"{card} .chips a") if one.text)
    assert chip.text in NODES
    browser.execute_script("arguments[0].click()", chip)
    until(browser, "location.pathname.startsWith('/nodes/')")
    until(browser, "document.querySelectorAll('#node canvas').length >= 4")
    assert text(browser, "#node-title") in NODES
    until(browser, "document.querySelectorAll('#node-scales tr').length === 2")
    until(browser, "document.getElementById('node-facts').textContent.includes('in incident')")
    until(browser, "document.querySelectorAll('#history-incidents a').length === 1")
    near = browser.find_elements("css selector", "#node-near a")
    assert len(near) == 2
    assert {link.text for link in near} <= set(NODES)
    browser.back()
    until(browser, f'location.pathname === "/" && document.querySelector("{card}") !== null')

    find(browser, f"{card} .summary a").click()
    until(browser, f"location.pathname === '/incidents/{record['incident']}'")
    until(
        browser,
        "document.querySelectorAll('#incident-statistic canvas, #incident-signals canvas').length >= 2",
    )
    assert " changed" in text(browser, "#incident-facts")
    browser.refresh()  # the address alone leads here, too
    until(browser, "document.querySelectorAll('#incident-signals canvas').length >= 1")
    assert text(browser, "#incident-state") == "▲ critical · open" or "open" in text(
        browser, "#incident-state"
    )
    until(browser, "document.querySelectorAll('#incident-log li').length >= 1")
    ticked = [
        box.get_attribute("value")
        for box in browser.find_elements("css selector", "#incident-label input[type=checkbox]")
        if box.is_selected()
    ]
    assert HOSTILE in ticked, "members are ticked before anybody has said a word"
    find(browser, "#incident-label input[value=false]").click()
    find(browser, "#label-note").send_keys("<b>door</b> was open")
    find(browser, "#incident-label button").click()
    until(
        browser,
        "document.querySelector('#incident-label .said').textContent.includes('<b>door</b> was open')",
    )
    find(browser, "#comment-text").send_keys("<i>seen</i> by me")
    find(browser, "#comment-form button").click()
    until(browser, "document.getElementById('incident-comments').textContent.includes('<i>seen</i> by me')")
    until(browser, "document.getElementById('incident-log').textContent.includes('by anonymous')")
    find(browser, "nav a[href='/']").click()
    until(browser, f"document.querySelector(\"{card} .said\").textContent.includes('<b>door</b> was open')")

    find(browser, f"{card} [data-action=accept]").click()
    assert "new baseline" in text(browser, "#ask-title")
    find(browser, "#ask-ok").click()
    until(browser, f'document.querySelector("{card}") === null')
    until(browser, "document.getElementById('ended-summary').textContent === 'Ended (1)'")
    assert feed.status()["incidents_open"] == []
    assert browser.execute_script("return window.hacked") is None
    assert browser.execute_script("return document.querySelectorAll('main img, main script').length") == 0
    assert console(browser) == []


def test_nodes_are_counted_as_the_summary_counts_them(browser: Any, feed: Feed) -> None:
    browser.get(address(feed))
    counted = """const done = arguments[1];
        import("/page/words.js").then(({ extent }) => done(arguments[0].map(extent)));"""
    changed, possibly = {"name": "a", "state": "recovered", "changed": True}, {"changed": False}
    of_0_1 = [{"state": "alarmed"}, {"state": "suspected"}]
    given = [[changed] * 6 + [possibly] * 3, [changed], [possibly], of_0_1]
    assert browser.execute_async_script(counted, given) == [
        "6 nodes changed, 3 possibly", "1 node changed", "1 node possibly changed",
        "1 node changed, 1 possibly",
    ]  # fmt: skip


def test_findings_of_an_incident(browser: Any, feed: Feed) -> None:
    """They come by themselves, with their numbers; the dialog shows them beside the questions."""
    browser.get(address(feed))
    until(browser, "document.getElementById('map-summary').textContent.startsWith('8 sensors')")
    for tick in range(40):
        feed.push(1, tuple(NODES[1:4]), size=0.7 * tick)
    card = "#incidents-open > li:has([data-kind=trend])"
    trend = f"{card} [data-kind=trend]"
    until(browser, f'document.querySelector("{card}") !== null', 30)
    assert "still moves away" in text(browser, trend)
    assert not find(browser, f"{trend} table").is_displayed()
    find(browser, f"{trend} summary").click()
    shown = text(browser, trend)
    assert "growing" in shown
    assert NODES[1] in shown
    until(browser, f'document.querySelector("{card} [data-kind=value_ranges]") !== null', 30)
    find(browser, f"{card} [data-kind=value_ranges] summary").click()
    assert "centre" in text(browser, f"{card} [data-kind=value_ranges] thead")
    assert "{" not in text(browser, f"{card} .findings"), "numbers in tables, no JSON"

    opened = browser.execute_script("return document.querySelector(arguments[0]).dataset.record", card)
    find(browser, f"{card} .actions a[href$='#label']").click()
    until(browser, "document.querySelector('#incident-findings [data-kind=trend]') !== null")
    assert "still moves away" in text(browser, "#incident-findings")
    until(browser, "document.querySelectorAll('#incident-label input[type=checkbox]').length > 0")
    for box in browser.find_elements("css selector", "#incident-label input[type=checkbox]"):
        if box.is_selected() != (box.get_attribute("value") == NODES[1]):
            browser.execute_script("arguments[0].click()", box)
    find(browser, "#label-type").send_keys("leak")
    find(browser, "#incident-label button").click()
    until(browser, "document.querySelector('#incident-label .said').textContent.includes('leak · nodes ')")
    assert opened
    # The case is settled by now: what was compared is drawn, before and after, for each changed node.
    until(browser, "document.querySelectorAll('#incident-distributions .uplot').length >= 1", 60)
    said = browser.execute_script(
        "return document.querySelector('#incident-distributions [role=img]').getAttribute('aria-label')"
    )
    before, after = (float(one) for one in re.findall(r"(?:before|after) ([-\d.]+)", said))
    assert after > before + 1.0
    browser.back()
    until(browser, f'document.querySelector("{card} .said")?.textContent.includes("leak · nodes ")')
    assert find(browser, f"{trend} details").get_attribute("open")
    _, answer = feed.service.ask("/api/v1/incidents?state=open")
    assert answer["incidents"][0]["labels"]["nodes"] == [NODES[1]]
    browser.refresh()
    until(browser, f'document.querySelector("{trend}") !== null')
    find(browser, f"{card} [data-action=clear]").click()
    find(browser, "#ask-ok").click()
    until(browser, f'document.querySelector("{card}") === null')
    until(browser, "document.querySelector('#incidents-ended .findings') !== null")
    assert browser.execute_script("return window.hacked") is None
    assert console(browser) == []


def test_keyboard_alone(browser: Any, feed: Feed) -> None:
    from selenium.webdriver.common.keys import Keys

    browser.get(address(feed))
    until(browser, "document.getElementById('map-summary').textContent.startsWith('8 sensors')")
    browser.execute_script("document.getElementById('map').focus()")
    board = find(browser, "#map")
    board.send_keys(Keys.ARROW_RIGHT)
    until(browser, "document.getElementById('spoken').textContent !== ''")
    heard = set()
    for key in (Keys.ARROW_LEFT, Keys.ARROW_DOWN, Keys.ARROW_UP, Keys.ARROW_RIGHT):
        board.send_keys(key)
        heard.add(browser.execute_script("return document.getElementById('spoken').textContent"))
    assert len(heard) > 1
    board.send_keys(Keys.ENTER)
    until(browser, "location.pathname.startsWith('/nodes/')")
    until(browser, "document.activeElement.id === 'node-title'")
    find(browser, "#node-title").send_keys(Keys.ESCAPE)
    until(browser, "location.pathname === '/' && document.activeElement.id === 'map'")
    assert console(browser) == []


def test_click_on_the_map_opens_that_node(browser: Any, feed: Feed) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    browser.get(address(feed))
    until(browser, "document.getElementById('map-summary').textContent.startsWith('8 sensors')")
    board = find(browser, "#map")
    box = board.rect
    # Every node is within reach of some place of a fine grid; the first hit opens.
    for step in range(1, 60):
        x = (step * 37) % int(box["width"]) - box["width"] / 2
        y = (step * 53) % int(box["height"]) - box["height"] / 2
        ActionChains(browser, duration=0).move_to_element_with_offset(board, int(x), int(y)).click().perform()
        if browser.execute_script("return location.pathname !== '/'"):
            break
    until(browser, "document.getElementById('node-title').textContent !== ''")
    assert text(browser, "#node-title") in NODES


def test_table_instead_of_the_map(browser: Any, feed: Feed) -> None:
    browser.get(address(feed))
    until(browser, "document.getElementById('map-summary').textContent.startsWith('8 sensors')")
    find(browser, "#table-fold summary").click()
    until(browser, "document.querySelectorAll('#table-body tr').length === 8")
    find(browser, "#table-name").send_keys("SCRIPT>")
    until(browser, "document.querySelectorAll('#table-body tr').length === 1")
    button = find(browser, "#table-body button")
    assert button.text == NODES[1]
    button.click()
    until(browser, "document.getElementById('node-title').textContent.includes('<script>')")
    until(browser, "document.querySelectorAll('#node canvas').length >= 4")
    assert browser.execute_script("return window.hacked") is None
    assert console(browser) == []


def test_everything_has_a_name_for_a_screen_reader(browser: Any, feed: Feed) -> None:
    browser.get(address(feed))
    until(browser, "document.getElementById('map-summary').textContent.startsWith('8 sensors')")
    tree = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    nameless = [
        node["role"]["value"]
        for node in tree
        if not node.get("ignored") and not node.get("name", {}).get("value")
        and node["role"]["value"] in NAMED_ROLES
    ]  # fmt: skip
    assert nameless == []
    headings = browser.execute_script(
        "return [...document.querySelectorAll('h1, h2, h3')].map(h => h.tagName)"
    )
    assert headings[0] == "H1"


def test_phone_has_no_sideways_scrolling(feed: Feed, tmp_path: Path) -> None:
    with chromium(tmp_path, (375, 740), dark=True) as phone:
        phone.get(address(feed))
        until(phone, "document.getElementById('map-summary').textContent.startsWith('8 sensors')")
        phone.execute_script("document.getElementById('table-fold').open = true")
        until(phone, "document.querySelectorAll('#table-body tr').length === 8")
        phone.execute_script("document.querySelector('#table-body button').click()")
        until(phone, "document.querySelectorAll('#node canvas').length >= 4")
        assert phone.execute_script("return document.documentElement.scrollWidth") <= 375
        _, answer = feed.service.ask("/api/v1/incidents")
        phone.get(f"{address(feed)}incidents/{answer['incidents'][0]['incident']}")
        until(phone, "document.querySelectorAll('#incident-signals canvas').length >= 1")
        assert phone.execute_script("return document.documentElement.scrollWidth") <= 375
        assert console(phone) == []


def test_reconnects_and_asks_for_a_token_once(browser: Any, tmp_path: Path) -> None:
    """The daemon stops and comes back, now with a token: the page notices both by itself."""
    path = settings(tmp_path)
    with rig.Service(path) as service:
        service.wait_ready()
        port = service.port
        browser.get(f"http://127.0.0.1:{port}/")
        until(browser, "document.getElementById('connection').textContent === 'live'")
        service.stop()
    until(browser, "document.getElementById('connection').className.includes('down')")
    until(browser, "document.getElementById('phase').textContent.includes('unknown')")
    assert "0 incidents" not in text(browser, "header"), "lost is not quiet"
    assert (
        float(browser.execute_script("return getComputedStyle(document.getElementById('overview')).opacity"))
        < 0.6
    )
    assert "not connected" in browser.title
    (tmp_path / "token").write_text("swordfish")
    path = settings(tmp_path, http={"port": port, "token_file": str(tmp_path / "token")})
    with rig.Service(path) as service:
        service.wait_ready()
        until(browser, "document.getElementById('ask').open", 30)
        find(browser, "#ask-token").send_keys("wrong")
        find(browser, "#ask-ok").click()
        until(
            browser,
            "document.getElementById('ask').open && document.getElementById('ask-token').value === ''",
        )
        find(browser, "#ask-token").send_keys("swordfish")
        find(browser, "#ask-ok").click()
        until(browser, "document.getElementById('connection').textContent === 'live'")
        browser.refresh()
        until(browser, "document.getElementById('connection').textContent === 'live'")
        assert not browser.execute_script("return document.getElementById('ask').open")
    browser.get("about:blank")  # the page would go on looking for the daemon that has stopped
    console(browser)  # lost connections are told there; that is right


def test_zoom_and_cursor_have_the_times_of_the_axis(browser: Any, feed: Feed) -> None:
    """Drag, keys and buttons zoom; what the cursor says is UTC, in 24 hours, as the axis."""
    from selenium.webdriver.common.action_chains import ActionChains

    _, answer = feed.service.ask("/api/v1/incidents")
    browser.get(f"{address(feed)}incidents/{answer['incidents'][-1]['incident']}")
    until(browser, "document.querySelectorAll('#incident-signals .u-over').length >= 1")
    over = find(browser, "#incident-statistic .u-over")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", over)
    ActionChains(browser, duration=50).move_to_element(over).perform()
    time = r"/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC/"
    until(browser, f"{time}.test(document.querySelector('#incident-statistic .u-legend').innerText)")
    whole = ranges(browser)
    wide = over.size["width"]
    hold = ActionChains(browser, duration=50).move_to_element(over).click_and_hold()
    hold.move_by_offset(wide // 4, 0).release().perform()
    until(
        browser, f"Number(document.querySelector('#incident-statistic [data-to]').dataset.to) < {whole[0][1]}"
    )
    zoomed = ranges(browser)
    assert all(one == zoomed[0] for one in zoomed), "all charts show the same stretch"
    assert zoomed[0][1] - zoomed[0][0] < 0.4 * (whole[0][1] - whole[0][0])
    find(browser, "#signals-tools [aria-label=Earlier]").click()
    assert ranges(browser)[0][0] < zoomed[0][0]
    browser.execute_script("document.querySelector('#incident-statistic [data-to]').focus()")
    ActionChains(browser).send_keys("0").perform()
    assert ranges(browser)[0][0] == whole[0][0]
    assert console(browser) == []


def ranges(browser: Any) -> list[list[float]]:
    """The stretch of time that each chart of the incident shows."""
    each = "(one) => [Number(one.dataset.from), Number(one.dataset.to)]"
    script = f"return [...document.querySelectorAll('#incident [data-to]')].map({each})"
    found: list[list[float]] = browser.execute_script(script)
    return found


def test_a_sensor_is_found_by_name(browser: Any, feed: Feed) -> None:
    from selenium.webdriver.common.keys import Keys

    browser.get(address(feed))
    until(browser, "document.getElementById('map-summary').textContent.startsWith('8 sensors')")
    find(browser, "#find-name").send_keys("気温", Keys.ENTER)
    until(browser, "document.getElementById('node-title').textContent === 'ünï 気温'")
    assert console(browser) == []


def test_an_incident_that_is_not_there(browser: Any, feed: Feed) -> None:
    browser.get(f"{address(feed)}incidents/none")
    until(browser, "!document.getElementById('incident-missing').hidden")
    assert not find(browser, "#incident-body").is_displayed()
    console(browser)  # the 404 is told there


def test_silence_from_the_page(browser: Any, feed: Feed) -> None:
    browser.get(f"{address(feed)}silences")
    until(browser, "document.getElementById('silences-list').textContent.includes('None')", 150)
    find(browser, "#silence-nodes").send_keys("n7")
    find(browser, "#silence-reason").send_keys("<b>works</b>")
    find(browser, "#silence-form button").click()
    until(browser, "document.getElementById('silences-list').textContent.includes('<b>works</b>')", 150)
    assert "active" in text(browser, "#silences-list")
    find(browser, "#silences-list button").click()
    until(browser, "document.getElementById('silences-list').textContent.includes('ended')", 150)
    find(browser, "nav a[href='/audit']").click()
    until(browser, "document.getElementById('audit-list').textContent.includes('end silence')", 150)
    assert console(browser) == []


def test_another_budget_is_compared_and_used(browser: Any, feed: Feed) -> None:
    """What others would have raised, one of them in the chart, taken, in the audit trail, and taken back."""
    browser.get(f"{address(feed)}budget")
    if feed.status()["phase"] != "watching":
        feed.learn()
        browser.refresh()
    until(browser, "document.querySelectorAll('#budget-list tr').length >= 5", 60)
    until(browser, "document.querySelectorAll('#budget-chart canvas').length === 1")
    facts = "document.getElementById('budget-facts').textContent"
    assert browser.execute_script(f"return {facts}.includes('1 per 500 ticks')")
    find(browser, "#budget-words").send_keys("often")
    find(browser, "#budget-form button").click()
    until(browser, "document.getElementById('budget-error').textContent.includes('must be a budget such as')")
    find(browser, "#budget-words").clear()
    find(browser, "#budget-words").send_keys("1 per 7000 ticks")
    find(browser, "#budget-form button").click()
    rows = "[...document.querySelectorAll('#budget-list tr')]"
    row = f"{rows}.find((one) => one.textContent.includes('1 per 7000'))"
    until(browser, f"{row} !== undefined")
    until(browser, "document.getElementById('budget-chart').getAttribute('aria-label').includes('7000')")
    before = feed.status()["event_threshold"]
    browser.execute_script(f"{row}.querySelector('td button').click()")
    find(browser, "#ask-ok").click()
    until(browser, f"{facts}.includes('chosen here') && {facts}.includes('1 per 7000 ticks')")
    assert feed.status()["report"]["budget"] == "1 per 7000 ticks"
    assert feed.status()["event_threshold"] > before
    find(browser, "nav a[href='/audit']").click()
    until(browser, "document.getElementById('audit-list').textContent.includes('now: 1 per 7000 ticks')")
    find(browser, "nav a[href='/budget']").click()
    until(browser, "!document.getElementById('budget-back').hidden")
    find(browser, "#budget-back").click()
    find(browser, "#ask-ok").click()
    until(browser, f"!{facts}.includes('chosen here')")
    assert feed.status()["report"]["budget"] == "1 per 500 ticks"
    assert [one for one in console(browser) if "400" not in one] == []


def test_damage_of_the_state_is_told(browser: Any, tmp_path: Path) -> None:
    """Before anything else, as long as the daemon runs that found it; the command line says it, too."""
    config = settings(tmp_path, http={"port": servers.free_port()})
    with rig.Service(config) as service:
        service.wait_ready()
        assert service.stop() == 0
    with sqlite3.connect(tmp_path / "state" / FILE) as connection:
        connection.execute("INSERT INTO silence (id, crc, body) VALUES ('s', 1, x'00')")
    with rig.Service(config) as service:
        service.wait_ready()
        browser.get(f"http://127.0.0.1:{service.port}/")
        until(browser, "!document.getElementById('trouble').hidden")
        assert "Damage was found in the state: rows that did not match" in text(browser, "#trouble")
        assert "1 of silence" in text(browser, "#trouble")
        command = [sys.executable, "-m", "detector", "status", "--config", str(config)]
        told = subprocess.run(
            command, capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "300"}
        )
        assert "1 of silence" in told.stdout
        assert console(browser) == []
        browser.get("about:blank")  # nobody shall miss this daemon
