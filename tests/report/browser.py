"""A headless Chromium, driven by selenium, that notes every request and every message on its console."""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")


class Browser:
    """One window."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def look(self, page: Path, *, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        """Open a page on a screen of this size in CSS pixels."""
        self._resize(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.driver.get(page.resolve().as_uri())

    def _resize(self, width: int, height: int) -> None:
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)

    def run(self, script: str, *arguments: Any) -> Any:
        """What a piece of JavaScript returns."""
        return self.driver.execute_script(script, *arguments)

    def find(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def texts(self, selector: str) -> list[str]:
        """The text content of all elements."""
        script = "return [...document.querySelectorAll(arguments[0])].map(one => one.textContent)"
        return [str(text) for text in self.run(script, selector)]

    def all(self, selector: str, holds: str) -> bool:
        """Whether this JavaScript holds for ``one``, each of the elements."""
        return bool(self.run(f"return [...document.querySelectorAll('{selector}')].every(one => {holds})"))

    def settle(self) -> None:
        """Wait for what the last click or key set going: tables sort in a timer."""
        self.driver.execute_async_script("requestAnimationFrame(() => setTimeout(arguments[0], 50))")

    def screenshot(self, file: Path) -> Path:
        """A picture of the whole page, on a screen that is made as high as the page is.

        Chromium's own ``captureBeyondViewport`` now and then never answers.
        """
        self._resize(*self.run("return [innerWidth, document.documentElement.scrollHeight]"))
        self.settle()
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {})
        file.write_bytes(base64.b64decode(shot["data"]))
        return file

    def console(self) -> list[str]:
        """Messages since the last call: errors, warnings, what a policy blocked."""
        return [f"{entry['level']}: {entry['message']}" for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """The addresses asked for since the last call, without those inside the page and those that its
        policy blocked, which :meth:`console` tells of."""
        sent, blocked = {}, set()
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            parameters = message["params"]
            if message["method"] == "Network.requestWillBeSent":
                sent[parameters["requestId"]] = str(parameters["request"]["url"])
            elif message["method"] == "Network.loadingFailed" and parameters.get("blockedReason") == "csp":
                blocked.add(parameters["requestId"])
        return [url for key, url in sent.items() if key not in blocked and not url.startswith("data:")]


@contextmanager
def browser() -> Iterator[Browser]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    for flag in (
        "--headless=new",
        "--no-sandbox" if os.geteuid() == 0 else "--disable-extensions",  # root can't have the sandbox
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--hide-scrollbars",
        "--force-prefers-reduced-motion",
    ):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=Service(executable_path=str(DRIVER)))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
