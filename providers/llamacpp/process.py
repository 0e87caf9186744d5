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
from providers.engines.supervisor import ReportProgress
from providers.engines.watchdog import Watchdog, cpu_time_of, ping_http, wait_until_dead_or_hung
from providers.errors import EngineUnavailable
from providers.llamacpp.check import CHILD_COMMAND, is_xllamacpp_installed

_log = structlog.get_logger(__name__)

_START_TIMEOUT_S = 1800.0
"""To load a model; hundreds of gigabytes may come over a network."""

_STOP_TIMEOUT_S = 5.0
"""From SIGTERM to SIGKILL."""

_LOG_DRAIN_S = 1.0
"""To read what a process wrote before it ended."""

_LOG_TAIL_LINES = 20
_MAX_LINE_BYTES = 64 * 1024

_ERROR_LINE = re.compile(r"^[\d.]+ E +(?P<said>.+)$")
"""How llama.cpp's log marks an error: time, level, who, what."""


class EngineProcess:
    """A process that serves. `url` has no path; whoever asks must know `key`."""

    def __init__(self, url: str, key: str, end: Callable[[], Awaitable[str]]) -> None:
        self.url = url
        self.key = key
        self._end = end

    async def wait_until_dead(self) -> str:
        """Wait until the process is gone, or was killed for it hung; why, in the system's words or its own."""
        return await self._end()


@asynccontextmanager
async def run_engine_process(
    name: str, config: ProviderConfig, progress: ReportProgress
) -> AsyncGenerator[EngineProcess, None]:
    """Start llama.cpp and wait until it serves; it is gone when the block has ended. Raises EngineUnavailable."""
    if not is_xllamacpp_installed():
        raise EngineUnavailable('llama.cpp is not installed: pip install "responses-gateway[llamacpp]"', provider=name)
    model = Path(config.model or "")
    progress(f"loading {model.name}")
    key = secrets.token_urlsafe(32)
    # A session of its own: Ctrl-C on a terminal is for the gateway, which has answers to finish.
    process = await asyncio.create_subprocess_exec(
        *CHILD_COMMAND, stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=_MAX_LINE_BYTES, start_new_session=True
    )
    log_tail: deque[str] = deque(maxlen=_LOG_TAIL_LINES)
    try:
        async with asyncio.TaskGroup() as tasks:
            copying_log = tasks.create_task(_copy_log(name, process, log_tail, hidden=f"{model.parent}/"))

            async def end() -> str:
                status = await process.wait()
                await asyncio.wait([copying_log], timeout=_LOG_DRAIN_S)
                return _exit_reason(status, log_tail)

            try:
                request = {"model": str(model), "engine": config.engine, "key": key}
                if not (url := await _read_address(name, process, json.dumps(request))):
                    raise EngineUnavailable(await end(), provider=name)
                watch = _build_watchdog(process, url, key, config.hang_s)
                yield EngineProcess(url, key, lambda: wait_until_dead_or_hung(end(), watch))
            finally:
                await _stop_process(process)
                copying_log.cancel()
    except* EngineUnavailable as group:
        raise group.exceptions[0] from None


async def _read_address(name: str, process: Process, request: str) -> str:
    """The line that says where it serves; empty where it ended instead. Raises EngineUnavailable after `_START_S`."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_START_TIMEOUT_S):
            with suppress(OSError):  # gone before it read: its output ends, too
                process.stdin.write(request.encode() + b"\n")
                await process.stdin.drain()
            return (await process.stdout.readline()).decode().strip()
    except TimeoutError:
        raise EngineUnavailable(f"it was not ready within {_START_TIMEOUT_S:g} s", provider=name) from None


def _build_watchdog(process: Process, url: str, key: str, timeout_s: float) -> Watchdog:
    at = urlsplit(url)
    return Watchdog(
        # What computes also writes this page, unlike the one about its health.
        ping=lambda: ping_http(at.hostname or "", at.port or 80, "/metrics", key),
        cpu_time_s=lambda: cpu_time_of([process.pid]),
        kill=process.kill,
        timeout_s=timeout_s,
    )


async def _copy_log(name: str, process: Process, log_tail: "deque[str]", *, hidden: str) -> None:
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
        log_tail.append(text)
        _log.debug("engine_said", engine=name, line=text)


async def _stop_process(process: Process) -> None:
    """End the process, whatever it is at."""
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(_STOP_TIMEOUT_S):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _exit_reason(status: int, log_tail: "deque[str]") -> str:
    """The first error of those it told of last, or its last words, and how it ended."""
    how = f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit code {status}"
    errors = (found["said"] for line in log_tail if (found := _ERROR_LINE.match(line)))
    words = next(errors, log_tail[-1] if log_tail and status >= 0 else "")
    return f"{words} ({how})" if words else how
