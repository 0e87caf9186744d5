"""Makes Ctrl-C interrupt any waiting call of the main thread."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_ALARM_INTERVAL_S: Final = 0.5


@contextmanager
def interrupt_waits() -> Iterator[None]:
    """In the main thread, raises KeyboardInterrupt at most half a second after the signal.

    Python records a signal that arrives just before a system call, but the call is not interrupted: the exception would
    come only after the upstream has replied. Therefore a timer interrupts waiting calls regularly. Python then resumes
    them (PEP 475).
    """
    if not hasattr(signal, "setitimer"):
        yield
        return
    previous_handler = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, _ALARM_INTERVAL_S, _ALARM_INTERVAL_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous_handler)
