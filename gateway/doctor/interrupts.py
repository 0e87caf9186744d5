"""Ctrl-C, heard wherever a thread waits."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_ALARM_INTERVAL_S: Final = 0.5


@contextmanager
def interrupt_waits() -> Iterator[None]:
    """For the main thread: KeyboardInterrupt comes half a second after the signal at the latest.

    A signal that comes in the last instant before a system call is noted, but does not interrupt it: it would be heard
    when the upstream has answered. So what waits is interrupted now and then, and goes on (PEP 475).
    """
    if not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, _ALARM_INTERVAL_S, _ALARM_INTERVAL_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
