"""Starts llama.cpp's child process, waits until it serves, and stops it."""

import asyncio
import json
import re
import secrets
import signal
from asyncio import StreamReader, StreamWriter
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import structlog

from providers.config import ProviderConfig
from providers.engines.supervisor import ProgressReporter
from providers.engines.watchdog import Watchdog, is_process_ending, ping_http, read_cpu_time, wait_until_dead_or_hung
from providers.errors import EngineUnavailable
from providers.llamacpp.check import CHILD_COMMAND, is_xllamacpp_installed

_log = structlog.get_logger(__name__)

_PipeT = TypeVar("_PipeT", StreamReader, StreamWriter)

_START_TIMEOUT_S = 1800.0
"""The limit for loading a model. It is long because hundreds of gigabytes may be read over a network."""

_STOP_TIMEOUT_S = 5.0
"""The time between SIGTERM and SIGKILL."""

_LOG_DRAIN_S = 1.0
"""The limit for reading the rest of the log of a process that has ended."""

_LOG_TAIL_LINES = 20
_MAX_LINE_BYTES = 64 * 1024

_ERROR_LINE = re.compile(r"^[\d.]+ E +(?P<message>.+)$")
"""An error line of llama.cpp's log: the time, the level, and a message that begins with its source."""


class EngineProcess:
    """A process that serves. `url` has no path. Requests need `key` as their API key. `is_dead` returns whether the
    process has ended or is ending."""

    def __init__(self, url: str, key: str, *, is_dead: Callable[[], bool], end: Callable[[], Awaitable[str]]) -> None:
        self.url = url
        self.key = key
        self.is_dead = is_dead
        self._end = end

    async def wait_until_dead(self) -> str:
        """Waits until the process has ended, or hangs and is killed. Returns the reason, from its log or its exit
        code."""
        return await self._end()


@asynccontextmanager
async def run_engine_process(
    name: str, config: ProviderConfig, progress: ProgressReporter
) -> AsyncGenerator[EngineProcess, None]:
    """Starts llama.cpp and waits until it serves. The process has ended after the block. Raises EngineUnavailable with
    the reason if it does not start."""
    if not is_xllamacpp_installed():
        raise EngineUnavailable('llama.cpp is not installed: pip install "responses-gateway[llamacpp]"', provider=name)
    model = Path(config.model or "")
    progress(f"loading {model.name}")
    key = secrets.token_urlsafe(32)
    # In a new session, so that Ctrl-C on a terminal only reaches the gateway, which first finishes its replies.
    process = await asyncio.create_subprocess_exec(
        *CHILD_COMMAND, stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=_MAX_LINE_BYTES, start_new_session=True
    )
    log_tail: deque[str] = deque(maxlen=_LOG_TAIL_LINES)
    try:
        async with asyncio.TaskGroup() as tasks:
            log_copy = tasks.create_task(_copy_log(name, process, log_tail, hidden=f"{model.parent}/"))

            async def wait_for_exit() -> str:
                status = await process.wait()
                await asyncio.wait([log_copy], timeout=_LOG_DRAIN_S)
                return _exit_reason(status, log_tail)

            try:
                request = {"model": str(model), "engine": config.engine, "key": key}
                if not (url := await _read_address(name, process, json.dumps(request))):
                    raise EngineUnavailable(await wait_for_exit(), provider=name)
                watchdog = _build_watchdog(process, url, key, config.hang_s)
                yield EngineProcess(
                    url,
                    key,
                    is_dead=lambda: process.returncode is not None or is_process_ending(process.pid),
                    end=lambda: wait_until_dead_or_hung(wait_for_exit(), watchdog),
                )
            finally:
                await _stop_process(process)
                log_copy.cancel()
    except* EngineUnavailable as group:
        raise group.exceptions[0] from None


def _require_pipe(pipe: _PipeT | None) -> _PipeT:
    if pipe is None:
        raise RuntimeError("the process was started without pipes")
    return pipe


async def _read_address(name: str, process: Process, request: str) -> str:
    """Sends the request and returns the address that the process prints; empty if it ended instead. Raises
    EngineUnavailable after `_START_TIMEOUT_S`."""
    stdin, stdout = _require_pipe(process.stdin), _require_pipe(process.stdout)
    try:
        async with asyncio.timeout(_START_TIMEOUT_S):
            with suppress(OSError):  # the process ended before it read, so its output ends too
                stdin.write(request.encode() + b"\n")
                await stdin.drain()
            return (await stdout.readline()).decode().strip()
    except TimeoutError:
        raise EngineUnavailable(f"it was not ready within {_START_TIMEOUT_S:g} s", provider=name) from None


def _build_watchdog(process: Process, url: str, key: str, timeout_s: float) -> Watchdog:
    address = urlsplit(url)
    return Watchdog(
        # The thread that computes also renders /metrics. It is not involved in /health.
        ping=lambda: ping_http(address.hostname or "", address.port or 80, "/metrics", key),
        cpu_time_s=lambda: read_cpu_time([process.pid]),
        kill=process.kill,
        timeout_s=timeout_s,
    )


async def _copy_log(name: str, process: Process, log_tail: "deque[str]", *, hidden: str) -> None:
    """Copies the process's log to the gateway's, and its last lines to `log_tail`. `hidden` is removed from the lines:
    clients see the reason of an end, and must not see where files are."""
    stderr = _require_pipe(process.stderr)
    while True:
        try:
            line = await stderr.readline()
        except ValueError:
            continue  # a line over the limit is dropped; its rest is read next
        if not line:
            return
        text = line.decode(errors="replace").rstrip().replace(hidden, "")
        log_tail.append(text)
        _log.debug("engine_log", engine=name, line=text)


async def _stop_process(process: Process) -> None:
    """Ends the process: with SIGTERM, and after `_STOP_TIMEOUT_S` with SIGKILL."""
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
    """Returns why the process ended: the first error in the tail of its log, or else the last line unless a signal
    killed it; and its exit code or signal."""
    ending = f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit code {status}"
    errors = (match["message"] for line in log_tail if (match := _ERROR_LINE.match(line)))
    message = next(errors, log_tail[-1] if log_tail and status >= 0 else "")
    return f"{message} ({ending})" if message else ending
