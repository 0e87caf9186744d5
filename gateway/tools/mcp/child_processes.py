"""Ends child processes together with all processes that they started."""

import asyncio
import os
import signal
import time
from contextlib import suppress
from typing import Final

import anyio
import structlog

_log = structlog.get_logger(__name__)

_EXIT_S: Final = 1.0
"""The time that a process gets to end after its input is closed, and again after SIGTERM."""

_POLL_S: Final = 0.01
_WATCH_S: Final = 0.25


async def _end_in_steps(process: asyncio.subprocess.Process) -> None:
    try:
        if process.stdin is not None:
            process.stdin.close()
        if not await _wait_for_exit(process):
            _signal_group(process.pid, signal.SIGTERM)
            await _wait_for_exit(process)
    finally:
        _kill_group(process.pid)
    if not await _wait_for_exit(process):
        _log.warning("mcp_process_not_ended", pid=process.pid)


async def end_process(process: asyncio.subprocess.Process) -> None:
    """Ends a process and its group: by closing its input, then SIGTERM, then SIGKILL. It is reaped afterwards.

    A cancelled task waits for the end too, because a process that is not reaped is a zombie.
    """
    task = asyncio.get_running_loop().create_task(_end_in_steps(process))
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled


async def end_orphans(process: asyncio.subprocess.Process) -> None:
    """Ends the processes that a server started, once it has ended: they may hold its pipes open."""
    while process.returncode is None:  # noqa: ASYNC110  # there is no other sign of it while the pipes are held
        await anyio.sleep(_WATCH_S)
    _kill_group(process.pid)


def release_process(process: asyncio.subprocess.Process) -> None:
    """Ends the rest of a process group, and closes its pipes, because other processes may hold the other ends."""
    _kill_group(process.pid)
    # There is no public API for this. The MCP library does the same.
    if (transport := getattr(process, "_transport", None)) is not None:
        with suppress(PermissionError):
            transport.close()


async def _wait_for_exit(process: asyncio.subprocess.Process) -> bool:
    """Waits for the end of a process. Not by its `wait`, which also waits for pipes that other processes hold."""
    deadline = time.monotonic() + _EXIT_S
    while process.returncode is None:
        if time.monotonic() > deadline:
            return False
        await anyio.sleep(_POLL_S)
    return True


def _kill_group(pid: int) -> None:
    _signal_group(pid, signal.SIGKILL)


def _signal_group(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
