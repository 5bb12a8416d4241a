"""An operator's first minutes: the demonstration, the console in a browser, an accepted incident."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from selenium.common.exceptions import WebDriverException

from tests.browser import chromium, console, until
from tests.detector import rig

DEMO = Path(__file__).parents[2] / "config.yaml"
LONG = 240.0  # seconds: machines are shared


def find(browser: Any, selector: str) -> Any:
    return browser.find_element("css selector", selector)


def demonstration(folder: Path) -> Path:
    """The configuration of `make run`, but for the port and the folder: another daemon may run here."""
    text = DEMO.read_text()
    for old, new in (("port: 9178", "port: 0"), ("directory: state", f"directory: {folder / 'state'}")):
        assert text.count(old) == 1
        text = text.replace(old, new)
    made = folder / "config.yaml"
    made.write_text(text)
    return made


def accept_from_its_page(browser: Any) -> str:
    """Open an incident from its card, look at its signals, accept it. If it ended meanwhile: the next one."""
    while True:
        until(browser, "document.querySelector('#incidents-open .summary a') !== null", LONG)
        try:
            find(browser, "#incidents-open .summary a").click()
            until(browser, "location.pathname.startsWith('/incidents/')")
            until(browser, "document.querySelectorAll('#incident-signals canvas').length >= 1", LONG)
            find(browser, "#incident-accept").click()
            find(browser, "#ask-ok").click()
            until(browser, "!document.getElementById('ask').open")
        except WebDriverException:  # it ended while the hand was on its way: the card or the button is gone
            browser.refresh()
            find(browser, "h1 a").click()
            continue
        state = until(browser, "/open$/.test(document.getElementById('incident-state').textContent) ? null"
                               " : document.getElementById('incident-state').textContent", LONG)  # fmt: skip
        if "accepted as the new baseline" in state:
            return str(browser.current_url).rpartition("/")[2]
        find(browser, "h1 a").click()


def test_from_the_demonstration_to_an_accepted_incident(tmp_path: Path) -> None:
    with chromium(tmp_path / "profile") as browser, rig.Service(demonstration(tmp_path)) as service:
        browser.get(f"http://127.0.0.1:{service.port}/")
        until(browser, "document.getElementById('phase').textContent === 'learning'", LONG)
        # On a busy machine the demonstration may be too fast for its queue: it watches all the same.
        until(browser, "/^(watching|overloaded)/.test(document.getElementById('phase').textContent)", LONG)
        incident = accept_from_its_page(browser)

        ticked = [
            box.get_attribute("value")
            for box in browser.find_elements("css selector", "#incident-label input[type=checkbox]")
            if box.is_selected()
        ]
        assert 2 <= len(ticked) <= 10, "the demonstration changes five or six sensors at once"
        find(browser, "#incident-label input[value=true]").click()
        find(browser, "#label-note").send_keys("valve 3 was opened")
        find(browser, "#incident-label button").click()
        said = "document.querySelector('#incident-label .said').textContent"
        until(browser, f"{said}.includes('valve 3 was opened')", LONG)

        find(browser, "nav a[href='/audit']").click()
        audit = "document.getElementById('audit-list').textContent"
        until(browser, f"{audit}.includes('accept') && {audit}.includes('{incident}')", LONG)
        assert console(browser) == []

        records = service.ask(f"/api/v1/incidents/{incident}")[1]["records"]
        assert [one["resolution"] for one in records if one["event"] == "incident.resolved"] == ["accepted"]
        assert records[-1]["labels"]["alarm"] == "true"
        assert records[-1]["labels"]["note"] == "valve 3 was opened"
