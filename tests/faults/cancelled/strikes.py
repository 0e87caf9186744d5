"""Strikes a task at a chosen moment: when it waits for the nth time, or when the nth piece of a reply was sent."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass, field
from functools import partial
from typing import Any


@dataclass
class Strike:
    """`act` is called at the nth moment; without it, the task that waits is cancelled.

    Moments are the waits of the first task that runs a coroutine of the name `watched`. With an empty name they are the
    calls of `reach_moment`. At a wait, `act` is called as it begins or, if it is `late`, when what was waited for has
    come and the task has not resumed.
    """

    number: int
    act: Callable[[], object] | None = None
    late: bool = False
    watched: str = ""
    is_taken: bool = field(default=False, init=False)
    """Whether the task that it watches has begun."""
    _passed: int = field(default=0, init=False)

    @property
    def has_struck(self) -> bool:
        return self._passed >= self.number

    def reach_moment(self) -> None:
        self._passed += 1
        if self._passed == self.number and self.act is not None:
            self.act()

    def reach_wait(self, awaited: object) -> None:
        self._passed += 1
        if self._passed != self.number:
            return
        task = asyncio.current_task()
        assert task is not None
        act = self.act or task.cancel
        if self.late and isinstance(awaited, asyncio.Future):
            # The task's own callback is added when it has yielded the future, so it is called after this one.
            awaited.add_done_callback(lambda _: act())
        else:
            act()


class StruckWork:
    """Awaits `work`, whose waits are moments of a strike."""

    def __init__(self, work: Coroutine[Any, Any, Any], strike: Strike) -> None:
        self._work = work
        self._strike = strike

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._work.__await__()
        resume: Callable[[], Any] = partial(next, steps)
        while True:
            try:
                awaited = resume()
            except StopIteration as end:
                return end.value
            self._strike.reach_wait(awaited)
            try:
                yield awaited
            except BaseException as error:  # it is for the work
                resume = partial(steps.throw, error)
            else:
                resume = partial(next, steps)


async def run_struck(work: Coroutine[Any, Any, Any], strike: Strike) -> Any:
    """Runs `work`, whose waits are moments of a strike, in a task."""
    return await StruckWork(work, strike)


class StrikingTasks:
    """A task factory that strikes the task that `strike` watches, if it is set."""

    def __init__(self) -> None:
        self.strike: Strike | None = None

    def __call__(self, loop: asyncio.AbstractEventLoop, work: Any, **named: Any) -> asyncio.Task[Any]:
        strike = self.strike
        if strike is not None and not strike.is_taken and getattr(work, "__qualname__", "") == strike.watched:
            strike.is_taken = True
            work = run_struck(work, strike)
        return asyncio.Task(work, loop=loop, **named)
