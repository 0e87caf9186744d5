"""A headless Chromium that is already on this machine, driven over its DevTools protocol. Nothing is downloaded."""

import base64
import json
import os
import queue
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from websockets.sync.client import ClientConnection, connect

Json = dict[str, Any]

NAMES = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
DEADLINE_S = 60.0
_STOP_S = 5.0
_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def find_chromium() -> str | None:
    """The program that $CHROMIUM names, or the first of the usual names on the path."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Tab:
    """One page. `problems` has the messages of its console: violations of its policy, failed requests, exceptions."""

    def __init__(self, socket: ClientConnection, session: str) -> None:
        self.problems: list[str] = []
        self.requests: list[str] = []
        self._socket = socket
        self._session = session
        self._last_id = 0
        self._events: list[Json] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> Json:
        """Sends one command, and returns its result."""
        self._last_id += 1
        call = {"id": self._last_id, "sessionId": self._session, "method": method, "params": params}
        self._socket.send(json.dumps(call))
        deadline = time.monotonic() + 2 * DEADLINE_S
        while (message := self._receive()).get("id") != self._last_id:
            assert time.monotonic() < deadline, f"{method} was not answered in time"
        assert "error" not in message, message
        result: Json = message["result"]
        return result

    def open(self, url: str, *, width: int, dark: bool = False) -> None:
        """Loads a page completely in a window of this width."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        screen = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
        self.send("Emulation.setDeviceMetricsOverride", **screen)
        self._events.clear()
        self.send("Page.navigate", url=url)
        deadline = time.monotonic() + DEADLINE_S
        while "Page.loadEventFired" not in [event["method"] for event in self._events]:
            assert time.monotonic() < deadline, f"{url} was not loaded in time"
            self._receive()

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page; a promise is awaited."""
        how = {"awaitPromise": True, "returnByValue": True, "userGesture": True}
        reply = self.send("Runtime.evaluate", expression=expression, **how)
        assert "exceptionDetails" not in reply, reply
        return reply["result"].get("value")

    def wait_until(self, condition: str) -> None:
        """Waits until an expression is true after a change of the document, at most as long as pages may take."""
        self.evaluate(
            f"""new Promise((resolve, reject) => {{
              const check = () => {{ if ({condition}) {{ resolve(); return true; }} }};
              if (check()) return;
              new MutationObserver(check).observe(
                document, {{subtree: true, childList: true, characterData: true, attributes: true}});
              setTimeout(() => reject(new Error("never: " + {json.dumps(condition)})), {int(DEADLINE_S * 1000)});
            }})"""
        )

    def take_screenshot(self, file: Path) -> None:
        """The whole page as a PNG."""
        picture = self.send("Page.captureScreenshot", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(picture["data"]))

    def _receive(self) -> Json:
        message: Json = json.loads(self._socket.recv(timeout=DEADLINE_S))
        method, params = message.get("method"), message.get("params", {})
        if method is not None:
            self._events.append(message)
        if method == "Log.entryAdded":
            self.problems.append(params["entry"]["text"])
        elif method == "Runtime.exceptionThrown":
            self.problems.append(str(params["exceptionDetails"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        return message


@contextmanager
def open_browser(program: str) -> Iterator[Tab]:
    """A browser with one tab, whose profile is deleted afterwards.

    The program may be a launcher, a shell that starts the browser: all processes that it starts are ended with it.
    """
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [program, *_OPTIONS, "--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"]
        process = subprocess.Popen(
            command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, start_new_session=True
        )
        lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        # A browser stops until its messages are read.
        reader = threading.Thread(target=_read_lines, args=(process, lines), daemon=True)
        reader.start()
        try:
            with connect(_find_address(program, lines), max_size=None, proxy=None) as socket:
                yield Tab(socket, _attach(socket))
        finally:
            _end_group(process)
            reader.join(DEADLINE_S)


def _read_lines(process: "subprocess.Popen[str]", lines: "queue.SimpleQueue[str]") -> None:
    """Reads until no process of the group has the pipe open. Only this thread closes it, because whoever closes a file
    waits for the thread that reads it."""
    assert process.stderr is not None
    with process.stderr:
        for line in process.stderr:
            lines.put(line)
    lines.put("")


def _find_address(program: str, lines: "queue.SimpleQueue[str]") -> str:
    deadline = time.monotonic() + DEADLINE_S
    prefix = "DevTools listening on "
    read = []
    with suppress(queue.Empty):
        while line := lines.get(timeout=max(0.0, deadline - time.monotonic())):
            read.append(line)
            if line.startswith(prefix):
                return line.removeprefix(prefix).strip()
    raise RuntimeError(f"{program} did not start: {''.join(read)[-2000:]}")


def _end_group(process: "subprocess.Popen[str]") -> None:
    """Ends a process and all that it has started. What does not end in time is killed."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_S)


def _attach(socket: ClientConnection) -> str:
    """The session of the first tab."""
    targets = _call_browser(socket, "Target.getTargets")["targetInfos"]
    tab = next(target["targetId"] for target in targets if target["type"] == "page")
    session: str = _call_browser(socket, "Target.attachToTarget", targetId=tab, flatten=True)["sessionId"]
    return session


def _call_browser(socket: ClientConnection, method: str, **params: Any) -> Json:
    socket.send(json.dumps({"id": 0, "method": method, "params": params}))
    while (message := json.loads(socket.recv(timeout=DEADLINE_S))).get("id") != 0:
        continue
    result: Json = message["result"]
    return result
