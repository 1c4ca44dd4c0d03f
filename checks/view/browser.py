"""A headless Chromium, driven over a pipe by its DevTools protocol: opens a page, runs script in it, takes pictures.

    python -m checks.view.browser page.html OUT [--look '#timeline']    pictures: desktop, phone, light, dark

A few dozen lines are enough for that, so no driver has to be installed beside the browser.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PATIENCE = 60.0  # seconds
DESKTOP, PHONE = (1280, 1.0), (390, 2.0)  # CSS pixels across, device pixels for each
# Descriptors 3 and 4 are where Chromium looks for its pipe.
PIPE = 'exec 3<&"$1" 4>&"$2"; shift 2; exec "$@"'


def chromium() -> str | None:
    """The browser's program, None when there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One page. ``problems``: errors and warnings that it logged, uncaught exceptions, and requests to the network."""

    def __init__(self) -> None:
        program = chromium()
        assert program, "no Chromium here"
        self._profile = tempfile.TemporaryDirectory()
        reads, self._write = os.pipe()
        self._read, writes = os.pipe()
        self._process = subprocess.Popen(
            [
                "bash", "-c", PIPE, "bash", str(reads), str(writes), program, "--headless", "--remote-debugging-pipe",
                "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-dev-shm-usage",
                f"--user-data-dir={self._profile.name}", "about:blank",
            ],
            pass_fds=(reads, writes), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(reads)
        os.close(writes)
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        self.problems: list[str] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(it["targetId"] for it in targets if it["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._read)
        os.close(self._write)
        shutil.rmtree(self._profile.name, ignore_errors=True)  # its children may still be at it
        self._profile._finalizer.detach()  # type: ignore[attr-defined]

    def call(self, method: str, **parameters: Any) -> Any:
        """Send a command and wait for its answer; problems reported meanwhile are noted."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self._note(answer)

    def _next(self) -> Any:
        end = time.monotonic() + PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            data = os.read(self._read, 1 << 20)
            assert data, "the browser has ended"
            self._rest += data
        first, _, self._rest = self._rest.partition(b"\0")
        return json.loads(first)

    def _note(self, event: Any) -> None:
        method, what = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = what["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning", "assert"):
            self.problems.append(str(what["args"]))
        elif method == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
            self.problems.append(what["entry"]["text"])
        elif method == "Network.requestWillBeSent" and not what["request"]["url"].startswith(("file:", "data:")):
            self.problems.append(f"asks for {what['request']['url']}")

    def show(self, path: Path, width: int = 1280, ratio: float = 1.0, dark: bool = False) -> None:
        """Open a page and wait until it is drawn."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=ratio, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=path.resolve().as_uri())
        end = time.monotonic() + PATIENCE
        while self.run("document.readyState") != "complete" or self.run("location.href") == "about:blank":
            assert time.monotonic() < end, "the page is not ready"
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def run(self, script: str) -> Any:
        """The value of an expression on the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press a key of ``KEYS``."""
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=KEYS[key])

    def picture(self, path: Path, selector: str = "") -> None:
        """A PNG of the whole page, or of one element."""
        box = f"document.querySelector({json.dumps(selector or 'html')}).getBoundingClientRect()"
        where = self.run(f"(({{x, y, width, height}}) => ({{x: x + scrollX, y: y + scrollY, width, height}}))({box})")
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip={**where, "scale": 1})["data"]
        path.write_bytes(base64.b64decode(data))


KEYS = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Home": 36, "End": 35, "Enter": 13, "Tab": 9}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("out", type=Path, help="a folder")
    parser.add_argument("--look", default="", help="only this element (a CSS selector)")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with Browser() as browser:
        for name, (width, ratio) in {"desktop": DESKTOP, "phone": PHONE}.items():
            for dark in (False, True):
                browser.show(options.page, width, ratio, dark)
                path = options.out / f"{options.page.stem}_{name}_{'dark' if dark else 'light'}.png"
                browser.picture(path, options.look)
                print(path)
        for problem in browser.problems:
            print("problem:", problem)


if __name__ == "__main__":
    main()
