"""What a database's health does when a probe fails in a way that nobody foresaw."""

import asyncio
from collections.abc import Callable

import pytest
from sqlalchemy import make_url
from structlog.testing import capture_logs

from gateway.state.database import health
from gateway.state.database.failures import DatabasePlace
from gateway.state.database.health import DatabaseHealth
from tests.polling import wait_until


class Probe:
    """Fails as its list says, one entry a probe, and then succeeds."""

    def __init__(self, *faults: Exception) -> None:
        self._faults = list(faults)
        self.succeed: Callable[[], None] = lambda: None

    async def __call__(self) -> None:
        if self._faults:
            raise self._faults.pop(0)
        self.succeed()


def open_health(probe: Probe, monkeypatch: pytest.MonkeyPatch) -> DatabaseHealth:
    monkeypatch.setattr(health, "_PROBE_INTERVAL_S", 0.01)
    opened = DatabaseHealth(probe, DatabasePlace.of(make_url("sqlite:///anywhere.db")))
    probe.succeed = lambda: opened.record_success("write")
    return opened


async def test_a_probe_that_fails_oddly_does_not_end_the_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open_health(Probe(RuntimeError("odd"), RuntimeError("odd")), monkeypatch)
    with capture_logs() as logs:
        opened.record_failure("write", "disk I/O error")
        await wait_until(lambda: opened.failure is None)
    assert [line["event"] for line in logs].count("store_probe_failed") == 2
    await opened.aclose()


async def test_a_probe_that_fails_oddly_vouches_for_no_database(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open_health(Probe(RuntimeError("odd")), monkeypatch)
    await opened.judge_failure("write", TimeoutError("a slow query"))
    assert opened.failure == "it does not answer in time"
    await opened.aclose()


async def test_a_failure_is_judged_by_the_probe_that_it_waited_for() -> None:
    """Another failure may begin the next probe right when this one has ended."""
    later: list[asyncio.Task[None]] = []

    def judge_another() -> None:
        if not later:
            later.append(asyncio.create_task(opened.judge_failure("read", TimeoutError("another slow query"))))

    async def probe() -> None:
        asyncio.get_running_loop().call_soon(judge_another)

    opened = DatabaseHealth(probe, DatabasePlace.of(make_url("sqlite:///anywhere.db")))
    await opened.judge_failure("read", TimeoutError("a slow query"))
    await later[0]
    assert opened.failure is None
    await opened.aclose()
