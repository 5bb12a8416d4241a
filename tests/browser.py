"""A headless Chromium for tests of pages. Debian's packages chromium and chromium-driver bring it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
    "--disable-dev-shm-usage", "--force-device-scale-factor=1",
)  # fmt: skip


@contextmanager
def chromium(folder: Path, size: tuple[int, int] = (1280, 900), *, dark: bool = False) -> Iterator[Any]:
    """A browser with a fresh profile in ``folder``; its console is read with `console`."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.fail("chromium and chromium-driver are not installed (scripts/install-brokers does)")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in (*FLAGS, f"--user-data-dir={folder}", f"--window-size={size[0]},{size[1]}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options, webdriver.ChromeService(driver))
    try:
        browser.set_script_timeout(30)
        browser.set_page_load_timeout(60)
        # The size of the page itself, phones included: a window cannot be narrower than 500.
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size[0] < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        yield browser
    finally:
        browser.quit()


def console(browser: Any) -> list[str]:
    """What the page complained about since the last call; not what one that was left did about its daemon."""
    here = browser.execute_script("return location.origin + '/'")
    messages = [
        entry["message"] for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")
    ]
    return [one for one in messages if one.startswith(here) or not one.startswith("http://127.0.0.1:")]


def until(browser: Any, script: str, seconds: float = 45.0) -> Any:
    """Wait until ``script``, a JavaScript expression, is true; its value."""
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, seconds, poll_frequency=0.1).until(
        lambda b: b.execute_script(f"return ({script});"), f"never true: {script}"
    )
