"""Firefox and WebKitGTK as Debian has them, driven by the commands of WebDriver.

Firefox takes them at a port of its own (Marionette), WebKitGTK from WebKitWebDriver over HTTP.
Playwright, which drives Chromium, needs builds of its own of these two.
"""

import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.system.processes import free_port, until

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
"""The key of an element's id, as the standard says."""
_SECONDS_MAX = 60
_DISPLAY = ":117"
# Of each command: its method, and its path below that of the session.
_PATHS = {
    "Navigate": ("POST", "/url"),
    "GetTitle": ("GET", "/title"),
    "FindElement": ("POST", "/element"),
    "ElementClick": ("POST", "/element/{id}/click"),
    "ElementSendKeys": ("POST", "/element/{id}/value"),
    "ExecuteScript": ("POST", "/execute/sync"),
    "SetWindowRect": ("POST", "/window/rect"),
}
Command = Callable[..., Any]


class Driven:
    """A window of a browser.

    Args:
        command: sends a command of WebDriver with its parameters, and returns the value.
        url: the address of the site, without a path.
    """

    def __init__(self, command: Command, url: str) -> None:
        self._command = command
        self._url = url

    def open(self, path: str) -> None:
        """Open a page by its path."""
        self._command("Navigate", url=f"{self._url}{path}")

    def title(self) -> str:
        """Return the title of the page."""
        title: str = self._command("GetTitle")
        return title

    def run(self, script: str) -> Any:
        """Return what a script in the page returns."""
        return self._command("ExecuteScript", script=script, args=[])

    def text(self) -> str:
        """Return what can be read on the page, with single spaces."""
        return " ".join(self.run("return document.body.innerText").split())

    def type(self, selector: str, text: str) -> None:
        """Type into an element."""
        self._command("ElementSendKeys", id=self._find("css selector", selector), text=text)

    def press(self, name: str) -> None:
        """Press a button, and wait for the page that it leads to."""
        self.run("window.isOld = true")
        found = self._find("xpath", f"//button[normalize-space() = '{name}']")
        self._command("ElementClick", id=found)
        ready = "return !window.isOld && document.readyState === 'complete'"
        until(lambda: self.run(ready), f"the page after {name}")

    def set_width(self, pixels: int) -> int:
        """Set the width of the window; return that of the page, which can be wider."""
        self._command("SetWindowRect", width=pixels, height=800)
        width: int = self.run("return innerWidth")
        return width

    def _find(self, using: str, value: str) -> str:
        found: str = self._command("FindElement", using=using, value=value)[ELEMENT]
        return found


@contextmanager
def firefox(url: str) -> Iterator[Driven]:
    """Start Firefox on a site; skip where it is not installed."""
    program = _installed("firefox-esr", "firefox-esr")
    with ExitStack() as stack:
        profile = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port = free_port()
        (profile / "user.js").write_text(f'user_pref("marionette.port", {port});\n')
        words = [program, "--headless", "--marionette", "--profile", profile, "--no-remote"]
        stack.enter_context(_running(words, {"HOME": str(profile)}))
        connection = stack.enter_context(_connected(port))
        stream = stack.enter_context(connection.makefile("rwb"))
        _read(stream)  # a greeting
        command = partial(_by_marionette, stream)
        command("NewSession")
        yield Driven(command, url)


def _by_marionette(stream: Any, name: str, **parameters: Any) -> Any:
    message = json.dumps([0, 1, f"WebDriver:{name}", parameters]).encode()
    stream.write(b"%d:%s" % (len(message), message))
    stream.flush()
    _, _, error, result = _read(stream)
    assert error is None, error
    return result.get("value") if set(result) == {"value"} else result


def _read(stream: Any) -> Any:
    length = b""
    while (character := stream.read(1)) != b":":
        assert character, "Firefox has ended"
        length += character
    return json.loads(stream.read(int(length)))


@contextmanager
def webkit(url: str) -> Iterator[Driven]:
    """Start WebKitGTK's browser on a site; skip where it or a display is not installed."""
    driver = _installed("WebKitWebDriver", "webkit2gtk-driver")
    display = _installed("Xvfb", "xvfb")
    with ExitStack() as stack:
        home = stack.enter_context(tempfile.TemporaryDirectory())
        stack.enter_context(_running([display, _DISPLAY, "-screen", "0", "1600x1200x24"], {}))
        until(Path(f"/tmp/.X11-unix/X{_DISPLAY[1:]}").exists, "the display")
        port = free_port()
        words = [driver, "--host=127.0.0.1", f"--port={port}"]
        # Without a bus and a GPU of the machine.
        env = {
            "HOME": home,
            "DISPLAY": _DISPLAY,
            "GDK_BACKEND": "x11",
            "LIBGL_ALWAYS_SOFTWARE": "1",
        }
        env |= {"WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS": "1", "GIO_USE_VFS": "local"}
        stack.enter_context(_running(words, env))
        _connected(port).close()
        begun = _by_http(port, "POST", "/session", {"capabilities": {}})
        session = f"/session/{begun['sessionId']}"

        def command(name: str, **parameters: Any) -> Any:
            method, path = _PATHS[name]
            return _by_http(port, method, session + path.format(**parameters), parameters)

        try:
            yield Driven(command, url)
        finally:
            _by_http(port, "DELETE", session, {})


def _by_http(port: int, method: str, path: str, parameters: dict[str, Any]) -> Any:
    connection = HTTPConnection("127.0.0.1", port, timeout=_SECONDS_MAX)
    try:
        body = json.dumps(parameters) if method == "POST" else None
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        value = json.loads(answer.read())["value"]
    finally:
        connection.close()
    assert answer.status == 200, value
    return value


def _installed(name: str, package: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: apt-get install {package}")
    return found


@contextmanager
def _running(words: list[Any], env: dict[str, str]) -> Iterator[None]:
    process = subprocess.Popen(
        list(map(str, words)),
        env=os.environ | env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def _connected(port: int) -> socket.socket:
    """Return a connection to a port of this machine, as soon as something listens there."""
    made: list[socket.socket] = []

    def is_made() -> bool:
        try:
            made.append(socket.create_connection(("127.0.0.1", port), timeout=_SECONDS_MAX))
        except OSError:
            return False
        return True

    until(is_made, f"port {port}")
    return made[0]
