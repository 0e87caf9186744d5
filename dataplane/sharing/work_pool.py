"""Threads for work that would hold up the event loop, because something large was received."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Final, ParamSpec, TypeVar

from dataplane.sharing.fair_turns import FairTurns, PerLoop, current_owner

_THREADS: Final = 2
"""Threads share the interpreter's lock with the event loop, so each of them takes a share of its time."""

_FEW_VALUES: Final = 1000
"""So many small values can be gone through in a few milliseconds."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


class WorkPool:
    """The threads of one event loop. Owners that wait for a thread are served in rotation.

    So an owner waits for the work that is running, and for one piece of work of each other owner, however much work the
    others have. The threads start when they are first used.
    """

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="heavy-work")
        self._turns = FairTurns(_THREADS, reserves=False)

    async def run(self, call: Callable[[], _R]) -> _R:
        """Runs `call` in a thread, and returns its result. The call runs to its end even if the caller is cancelled."""
        owner = current_owner.get()
        await self._turns.enter(owner)
        work = asyncio.get_running_loop().run_in_executor(self._executor, call)
        work.add_done_callback(lambda _: self._turns.leave(owner))
        return await asyncio.shield(work)


_pools: Final = PerLoop(WorkPool)


async def run_in_pool(function: Callable[_P, _R], *args: _P.args, **named: _P.kwargs) -> _R:
    """Returns what a function returns that runs in one of the threads of the running event loop, in a copy of the
    caller's context."""
    return await _pools.get().run(partial(copy_context().run, partial(function, *args, **named)))


async def run_for_count(count: int, function: Callable[_P, _R], *args: _P.args, **named: _P.kwargs) -> _R:
    """Calls a function that goes through `count` values: in a thread if they are many, else here."""
    return function(*args, **named) if count <= _FEW_VALUES else await run_in_pool(function, *args, **named)
