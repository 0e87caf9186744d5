"""The runs of threads that are not stored: one at a time."""

import pytest

from gateway.dialects.agui.threads import RunningThreads
from gateway.errors import RunInProgress


def test_a_thread_has_one_run_at_a_time() -> None:
    threads = RunningThreads()
    end_first = threads.begin_run("ann", "t")
    for owner, thread_id in (("bob", "t"), ("ann", "other")):
        threads.begin_run(owner, thread_id)
    with pytest.raises(RunInProgress):
        threads.begin_run("ann", "t")
    end_first()
    threads.begin_run("ann", "t")


def test_the_end_of_an_old_request_does_not_end_the_run_that_followed() -> None:
    threads = RunningThreads()
    end_first = threads.begin_run("ann", "t")
    end_first()  # Its last event is sent.
    end_second = threads.begin_run("ann", "t")
    end_first()  # Its request ends, after the client has begun the next run.
    with pytest.raises(RunInProgress):
        threads.begin_run("ann", "t")
    end_second()
    threads.begin_run("ann", "t")
