"""SIGHUP: reloads the configuration, unless it means that the terminal of the server was closed."""

import os
import signal
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Final

_STANDARD_FILES: Final = (0, 1, 2)


def on_hangup(reload: Callable[[], object]) -> None:
    """Calls `reload` at each SIGHUP, in the main thread.

    If the server was started on a terminal and that terminal is gone, the process gets SIGTERM instead. Otherwise
    it would run on, and occupy its port.
    """
    terminals = [file for file in _STANDARD_FILES if os.isatty(file)]

    def act(_number: int, _frame: FrameType | None) -> None:
        if terminals and not _is_any_terminal(terminals):
            signal.raise_signal(signal.SIGTERM)
        else:
            reload()

    signal.signal(signal.SIGHUP, act)


def _is_any_terminal(files: Iterable[int]) -> bool:
    return any(os.isatty(file) for file in files)
