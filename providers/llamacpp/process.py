"""llama.cpp's process as the gateway sees it: started, ready, dead, stopped."""

import asyncio
import json
import re
import secrets
import signal
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import structlog

from providers.config import ProviderConfig
from providers.engines.supervisor import Progress
from providers.engines.watchdog import Watch, answered, died_or_hung, processor_s
from providers.errors import EngineUnavailable
from providers.llamacpp.check import CHILD, is_installed

_log = structlog.get_logger(__name__)

_START_S = 1800.0
"""To load a model; hundreds of gigabytes may come over a network."""

_STOP_S = 5.0
"""From SIGTERM to SIGKILL."""

_LAST_WORDS_S = 1.0
"""To read what a process wrote before it ended."""

_KEPT_LINES = 20
_MAX_LINE_BYTES = 64 * 1024

_ERROR_LINE = re.compile(r"^[\d.]+ E +(?P<said>.+)$")
"""How llama.cpp's log marks an error: time, level, who, what."""


class Child:
    """A process that serves. `url` has no path; whoever asks must know `key`."""

    def __init__(self, url: str, key: str, end: Callable[[], Awaitable[str]]) -> None:
        self.url = url
        self.key = key
        self._end = end

    async def died(self) -> str:
        """Wait until the process is gone, or was killed for it hung; why, in the system's words or its own."""
        return await self._end()


@asynccontextmanager
async def child(name: str, config: ProviderConfig, progress: Progress) -> AsyncGenerator[Child, None]:
    """Start llama.cpp and wait until it serves; it is gone when the block has ended. Raises EngineUnavailable."""
    if not is_installed():
        raise EngineUnavailable('llama.cpp is not installed: pip install "responses-gateway[llamacpp]"', provider=name)
    model = Path(config.model or "")
    progress(f"loading {model.name}")
    key = secrets.token_urlsafe(32)
    # A session of its own: Ctrl-C on a terminal is for the gateway, which has answers to finish.
    process = await asyncio.create_subprocess_exec(
        *CHILD, stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=_MAX_LINE_BYTES, start_new_session=True
    )
    said: deque[str] = deque(maxlen=_KEPT_LINES)
    try:
        async with asyncio.TaskGroup() as tasks:
            listening = tasks.create_task(_listen(name, process, said, hidden=f"{model.parent}/"))

            async def end() -> str:
                status = await process.wait()
                await asyncio.wait([listening], timeout=_LAST_WORDS_S)
                return _why(status, said)

            try:
                asked = {"model": str(model), "engine": config.engine, "key": key}
                if not (url := await _address(name, process, json.dumps(asked))):
                    raise EngineUnavailable(await end(), provider=name)
                watch = _watch(process, url, key, config.hang_s)
                yield Child(url, key, lambda: died_or_hung(end(), watch))
            finally:
                await _stop(process)
                listening.cancel()
    except* EngineUnavailable as group:
        raise group.exceptions[0] from None


async def _address(name: str, process: Process, asked: str) -> str:
    """The line that says where it serves; empty where it ended instead. Raises EngineUnavailable after `_START_S`."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_START_S):
            with suppress(OSError):  # gone before it read: its output ends, too
                process.stdin.write(asked.encode() + b"\n")
                await process.stdin.drain()
            return (await process.stdout.readline()).decode().strip()
    except TimeoutError:
        raise EngineUnavailable(f"it was not ready within {_START_S:g} s", provider=name) from None


def _watch(process: Process, url: str, key: str, patience_s: float) -> Watch:
    at = urlsplit(url)
    return Watch(
        # What computes also writes this page, unlike the one about its health.
        ping=lambda: answered(at.hostname or "", at.port or 80, "/metrics", key),
        used_s=lambda: processor_s([process.pid]),
        kill=process.kill,
        patience_s=patience_s,
    )


async def _listen(name: str, process: Process, said: "deque[str]", *, hidden: str) -> None:
    """Copy its log into ours. Clients are told the reason of an end, and not where files are: `hidden`."""
    assert process.stderr is not None
    while True:
        try:
            line = await process.stderr.readline()
        except ValueError:
            continue  # longer than anything worth keeping; the rest of it comes next
        if not line:
            return
        text = line.decode(errors="replace").rstrip().replace(hidden, "")
        said.append(text)
        _log.debug("engine_said", engine=name, line=text)


async def _stop(process: Process) -> None:
    """End the process, whatever it is at."""
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(_STOP_S):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _why(status: int, said: "deque[str]") -> str:
    """The first error of those it told of last, or its last words, and how it ended."""
    how = f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit code {status}"
    errors = (found["said"] for line in said if (found := _ERROR_LINE.match(line)))
    words = next(errors, said[-1] if said and status >= 0 else "")
    return f"{words} ({how})" if words else how
