"""A browser in a test's hands: pages are opened, clicked, typed into and looked at over Chromium's own debugging pipe.

No driver is needed: the browser reads JSON from file descriptor 3 and answers on 4. A click is a real mouse event and a key a real
key, so what a person could not reach a test cannot reach either. Nothing sleeps for a while and hopes: a step waits until what it asks for is
there, and fails after ``PATIENCE`` seconds with what the page says instead. Each ``Person`` has cookies of its own.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import functools
import json
import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chromium import Found, axe_source

PATIENCE = 60.0  # machines that run tests are shared
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-default-browser-check", "--disable-dev-shm-usage", "--hide-scrollbars",
    "--remote-debugging-pipe",
)  # fmt: skip
_KEYS = {
    "Tab": ("Tab", 9, ""), "Enter": ("Enter", 13, "\r"), "Space": (" ", 32, " "), "Escape": ("Escape", 27, ""),
    "ArrowDown": ("ArrowDown", 40, ""), "ArrowUp": ("ArrowUp", 38, ""),
}  # fmt: skip
_SHIFT = 8


class Gone(Exception):
    """The page went away while it was asked something."""


class Browser:
    """One Chromium process; ``person()`` gives a page with cookies of its own."""

    def __init__(self, found: Found) -> None:
        self._folder = tempfile.mkdtemp(prefix="steelyard-browser-")
        self._log = Path(self._folder) / "log"
        self._events: list[dict[str, Any]] = []
        self._buffer, self._last = b"", 0
        argv = [found.path, *FLAGS, f"--user-data-dir={self._folder}/profile", "about:blank"]
        self._read, self._write, self._pid = _spawn(argv, {**os.environ, **found.environment}, self._log)
        self.call("Browser.getVersion")

    def person(self) -> Page:
        """A page of somebody whom no site knows yet."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Page(functools.partial(self.call, session=session))

    def call(self, method: str, *, session: str | None = None, **parameters: Any) -> Any:
        """Ask the browser for one thing and wait for its answer."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE
        while True:
            answer = self._message(until, method)
            if answer.get("id") == self._last:
                if "error" in answer:
                    raise Gone(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def _message(self, until: float, method: str) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, until - time.monotonic()))
            piece = os.read(self._read, 1 << 20) if ready else b""
            if not piece:
                told = self._log.read_text("utf-8", "replace")[-2000:]
                pytest.fail(f"the browser {'ended' if ready else 'did not answer'} at {method}. It said: {told}")
            self._buffer += piece
        first, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(first)
        return found

    def close(self) -> None:
        """End the process and forget what it kept."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._read)
        os.close(self._write)
        shutil.rmtree(self._folder, ignore_errors=True)


def _spawn(argv: list[str], environment: dict[str, str], log: Path) -> tuple[int, int, int]:
    """Start a program that reads from descriptor 3 and writes to 4; our ends of both, and its process."""
    theirs_in, ours_out = map(_high, os.pipe())
    ours_in, theirs_out = map(_high, os.pipe())
    pid = os.posix_spawn(argv[0], argv, environment, setsid=True, file_actions=[
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0), (os.POSIX_SPAWN_OPEN, 2, str(log), os.O_WRONLY | os.O_CREAT, 0o600),
        (os.POSIX_SPAWN_DUP2, theirs_in, 3), (os.POSIX_SPAWN_DUP2, theirs_out, 4),
    ])  # fmt: skip
    os.close(theirs_in)
    os.close(theirs_out)
    return ours_in, ours_out, pid


def _high(descriptor: int) -> int:
    """The same file under a number above those that a program is handed."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return moved


class Page:
    """One page and whoever sits in front of it."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call
        self.call("Page.enable")
        self.size(1280, 900)

    # what the person sees

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"].get("exception", {}).get("description", answer))
        return answer["result"].get("value")

    def size(self, width: int, height: int = 900) -> None:
        """Sit in front of a window of this size."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def dark(self, wanted: bool = True) -> None:
        """Like a dark or a light screen better."""
        value = "dark" if wanted else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": value}])

    def scripts(self, wanted: bool) -> None:
        """Let pages run scripts, or not."""
        self.call("Emulation.setScriptExecutionDisabled", value=not wanted)

    @property
    def url(self) -> str:
        """Where the page is."""
        return str(self.evaluate("location.href"))

    @property
    def text(self) -> str:
        """What can be read on the page."""
        return " ".join(str(self.evaluate("document.body.innerText")).split())

    @property
    def heading(self) -> str:
        """The main heading."""
        return str(self.evaluate("document.querySelector('h1').innerText")).strip()

    def screenshot(self, path: Path) -> None:
        """The whole page as a PNG file."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=self._whole())
        path.write_bytes(base64.b64decode(shot["data"]))

    def _whole(self) -> dict[str, float]:
        size = self.evaluate("[document.documentElement.clientWidth, document.documentElement.scrollHeight]")
        return {"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}

    def faults(self) -> list[str]:
        """What axe-core finds that some people could not use, and whatever sticks out of the window."""
        if not self.evaluate("typeof axe === 'object'"):
            self.evaluate(f"{axe_source()};0")
        rules = "{runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'], resultTypes: ['violations']}"
        told = "v => v.id + ': ' + v.help + ' at ' + v.nodes.map(n => n.html.slice(0, 160) + ' (' + n.failureSummary + ')').join(' | ')"
        found: list[str] = self.evaluate(f"axe.run(document, {rules}).then(r => r.violations.map({told}))")
        if self.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
            found.append(f"the page is wider than its window: {self.evaluate(_WIDEST)}")
        return found

    # what the person does

    def open(self, url: str) -> None:
        """Type an address."""
        self._leaving(lambda: self.call("Page.navigate", url=url))

    def press(self, words: str, within: str = "body") -> None:
        """Click the button or link with these words, and wait for the page it leads to."""
        self._leaving(lambda: self.click(words, within))

    def click(self, words: str, within: str = "body") -> None:
        """Click the button, link or fold with these words, in the middle, with the mouse."""
        self._click(f"({_BY_WORDS})({json.dumps(words)}, {json.dumps(within)})", words)

    def fill(self, label: str, value: str) -> None:
        """Type into the field with this label, over what stands there."""
        field = f"({_BY_LABEL})({json.dumps(label)})"
        self._wait(f"!!{field}", f"no field {label!r}")
        self.evaluate(f"{field}.focus(), {field}.select && {field}.select(), 0")
        self.call("Input.insertText", text=value)

    def choose(self, label: str, option: str) -> None:
        """Choose from a list, a group of buttons, or tick a box."""
        field = f"({_BY_LABEL})({json.dumps(label)})"
        self._wait(f"!!{field}", f"no field {label!r}")
        if not self.evaluate(f"({_CHOOSE})({field}, {json.dumps(option)})"):
            pytest.fail(
                f"{label!r} does not offer {option!r}; it offers {self.evaluate(f'[...{field}.options].map(o => o.text)')}"
            )

    def tick(self, label: str) -> None:
        """Click the box or the round button with this label."""
        self._click(f"({_BY_LABEL})({json.dumps(label)})", label)

    def attach(self, label: str, file: Path) -> None:
        """Choose a file of the own machine."""
        found = self.call("Runtime.evaluate", expression=f"({_BY_LABEL})({json.dumps(label)})")["result"]
        assert found.get("objectId"), f"no field {label!r} on {self.url}: {self.text[:500]}"
        self.call("DOM.setFileInputFiles", files=[str(file)], objectId=found["objectId"])

    def key(self, name: str, *, shift: bool = False) -> None:
        """Press a key: its name, or one letter."""
        key, code, text = _KEYS.get(name, (name, 0, name))
        common = {
            "key": key,
            "code": name if name in _KEYS else "",
            "windowsVirtualKeyCode": code,
            "modifiers": _SHIFT if shift else 0,
        }
        self.call(
            "Input.dispatchKeyEvent",
            type="keyDown" if text else "rawKeyDown",
            **common,
            **({"text": text} if text else {}),
        )
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, words: str) -> None:
        """Type words where the cursor is, with the keyboard."""
        self.call("Input.insertText", text=words)

    def enter(self) -> None:
        """Press the Enter key and wait for the page it leads to."""
        self._leaving(lambda: self.key("Enter"))

    def tab_to(self, words: str) -> list[str]:
        """Press Tab until what has these words or this label has the focus; the way there, as a reader would hear it."""
        way: list[str] = []
        for _ in range(200):
            self.key("Tab")
            way.append(str(self.evaluate(_FOCUSED)))
            if way[-1] == words:
                return way
        pytest.fail(f"the keyboard never reached {words!r} on {self.url}; it reached {list(dict.fromkeys(way))}")

    def see(self, *words: str) -> None:
        """Wait until all of these words can be read."""
        wanted = json.dumps([" ".join(each.split()) for each in words])
        said = "document.body.innerText.replace(/\\s+/g, ' ')"
        self._wait(f"{wanted}.every(each => {said}.includes(each))", f"one of {words} is not there")

    def _click(self, found: str, words: str) -> None:
        self._wait(f"!!{found}", f"nothing to click says {words!r}")
        x, y = self.evaluate(f"({_MIDDLE})({found})")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def _leaving(self, act: Callable[[], Any]) -> None:
        """Do what leads to another page, and wait until that is whole."""
        self.evaluate("window.steelyardLeft = true, 0")
        act()
        self._wait("window.steelyardLeft === undefined && document.readyState === 'complete'", "no other page came")

    def _wait(self, condition: str, problem: str) -> None:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            with contextlib.suppress(Gone, AssertionError):
                if self.evaluate(condition):
                    return
            time.sleep(0.02)
        pytest.fail(f"{problem} on {self.url}. The page says: {self.text[:1500]}")


_BY_WORDS = """(words, within) => {
  const said = e => (e.getAttribute('aria-label') || e.innerText || e.value || '').replace(/\\s+/g, ' ').trim();
  const all = [...document.querySelectorAll(within)].flatMap(e => [...e.querySelectorAll('button, a[href], summary, input[type=submit]')]);
  const seen = all.filter(e => e.getClientRects().length);
  return seen.find(e => said(e) === words) || seen.find(e => said(e).startsWith(words)) || null }"""
_BY_LABEL = """words => {
  const said = e => e.innerText.replace(/\\s+/g, ' ').trim();
  const all = [...document.querySelectorAll('label')].filter(e => e.control);
  const label = all.find(e => said(e) === words) || all.find(e => said(e).startsWith(words));
  return label ? label.control : null }"""
_MIDDLE = """e => { e.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'});
  const box = [...e.getClientRects()].find(r => r.width && r.height) || e.getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2] }"""
_CHOOSE = """(field, words) => { const found = [...field.options].find(o => o.text.trim() === words || o.value === words);
  if (found) { field.value = found.value; field.dispatchEvent(new Event('change', {bubbles: true})) } return !!found }"""
_FOCUSED = """(() => { const e = document.activeElement; if (!e || e === document.body) return '';
  const label = e.labels && e.labels[0]; return (e.getAttribute('aria-label') || (label ? label.innerText : e.innerText) || e.value || '').replace(/\\s+/g, ' ').trim() })()"""
_WIDEST = """[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1
  && !e.closest('figure, .scroll')).map(e => e.outerHTML.slice(0, 80)).slice(0, 5).join(' | ')"""
