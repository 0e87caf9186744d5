"""The last deadline of a test: it ends a process that nothing else can, and prints where each of its threads waited.

`timeout` of pytest-timeout interrupts a test by a signal. That fails in two places: in a teardown after a test that was
interrupted already, and in a wait that no signal interrupts, such as for the lock of a file that a thread reads.
This deadline comes later, needs neither signals nor the interpreter's lock, and holds for setup and test together, for
the teardown, and for the end of the process. With pytest-xdist the test fails as one that crashed its worker, and the
other tests run in a new worker.
"""

import faulthandler
import os
import threading
from collections.abc import Generator

import pytest

GRACE_S = 60.0
"""Seconds after the end of a test's `timeout`, in which it may be torn down."""


class LastDeadlines:
    """A plugin of pytest with a deadline for each test and for the end of the process."""

    def __init__(self, grace_s: float = GRACE_S) -> None:
        self._grace_s = grace_s
        # Output is captured while a test runs, but not while plugins are registered.
        self._stderr = os.dup(2)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._arm(find_timeout_s(item) + self._grace_s)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        """Sets the deadline again: pytest cancels it when a test has failed."""
        self._arm(find_timeout_s(item) + self._grace_s)
        return (yield)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Sets the deadline for what runs at the end of the process: other threads, and functions of `atexit`.

        A worker of pytest-xdist that has no tests left waits for the other workers, however long they take. Its process
        ends when the controller closes the connection, so the deadline begins then.
        """
        if hasattr(config, "workerinput"):
            # Called before other threads are waited for, and so before functions of `atexit`.
            threading._register_atexit(self._arm, self._grace_s)  # type: ignore[attr-defined]
        else:
            self._arm(self._grace_s)

    def _arm(self, seconds: float) -> None:
        faulthandler.dump_traceback_later(seconds, exit=True, file=self._stderr)


def find_timeout_s(item: pytest.Item) -> float:
    """Returns the seconds of the marker `timeout` of a test, or those of the configuration."""
    marker = item.get_closest_marker("timeout")
    if marker is not None and marker.args:
        return float(marker.args[0])
    return float(item.config.getini("timeout") or 0)
