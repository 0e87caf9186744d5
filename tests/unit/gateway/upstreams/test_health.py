"""gateway/upstreams/health.py: parking, ejection, trial and recovery."""

import random

import pytest
import structlog
from structlog.testing import capture_logs

from gateway.config.routing_settings import RoutingSettings
from gateway.upstreams import health as health_module
from gateway.upstreams.health import UpstreamHealth, UpstreamName
from gateway.upstreams.load import ProviderLoad

ATTEMPT, TRIAL = object(), object()


@pytest.fixture(autouse=True)
def log_of_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives the module a logger that no other test has configured: loggers are bound when they are used first."""
    monkeypatch.setattr(health_module, "_log", structlog.get_logger())


def make_health(**settings: object) -> UpstreamHealth:
    settings_of_all = RoutingSettings.model_validate(settings)
    return UpstreamHealth(UpstreamName("a", "m"), settings_of_all, random.Random(1), ProviderLoad())


def fail(health: UpstreamHealth, times: int, now: float = 0.0, weight: float = 1.0) -> None:
    for _ in range(times):
        health.record_failure(ATTEMPT, weight, now, may_eject=True)


def test_failures_in_a_row_eject() -> None:
    health = make_health(eject_samples=100)
    fail(health, 4)
    health.record_success(ATTEMPT, 0.0)
    fail(health, 4)
    assert health.find_state(0.0) == "available"
    fail(health, 1)
    assert health.find_state(0.0) == "ejected"
    assert health.ejections == 1


def test_half_failures_count_half() -> None:
    health = make_health(eject_samples=100)
    fail(health, 9, weight=0.5)
    assert health.find_state(0.0) == "available"
    fail(health, 1, weight=0.5)
    assert health.find_state(0.0) == "ejected"


def test_a_share_of_failures_ejects_from_enough_results_on() -> None:
    health = make_health(eject_failures=100)
    for _ in range(2):
        health.record_success(ATTEMPT, 0.0)
    fail(health, 2)
    assert health.find_state(0.0) == "available"  # 2 of 4
    fail(health, 1)
    assert health.find_state(0.0) == "ejected"  # 3 of 5


def test_results_count_within_the_window() -> None:
    health = make_health(eject_failures=100)
    fail(health, 4, now=0.0)
    fail(health, 1, now=10.9)
    assert health.find_state(10.9) == "available"


def test_nothing_is_ejected_that_has_no_substitute() -> None:
    health = make_health()
    for _ in range(10):
        health.record_failure(ATTEMPT, 1.0, 0.0, may_eject=False)
    assert health.find_state(0.0) == "available"


def test_each_ejection_in_a_row_lasts_twice_as_long_up_to_the_longest() -> None:
    health, now, lengths = make_health(eject_s=5, eject_max_s=30), 0.0, []
    fail(health, 5)
    for _ in range(4):
        end = health.find_end(now)
        assert end is not None
        lengths.append(end - now)
        now = end
        assert health.find_state(now) == "available"
        health.begin_attempt(TRIAL, now)
        health.record_failure(TRIAL, 1.0, now, may_eject=True)
    for length, wanted in zip(lengths, (5, 10, 20, 30), strict=True):
        assert length == pytest.approx(wanted, rel=0.1)
    assert health.ejections == 5


def test_one_turn_at_a_time_is_the_trial_and_its_success_restores() -> None:
    health = make_health(eject_s=5)
    with capture_logs() as lines:
        fail(health, 5)
        assert health.find_state(4.4) == "ejected"
        assert health.find_state(5.6) == "available"
        health.begin_attempt(TRIAL, 5.6)
        assert health.find_state(5.6) == "trial"
        health.begin_attempt(ATTEMPT, 5.6)
        health.record_success(ATTEMPT, 5.6)  # began before the ejection, and says nothing about now
        assert health.find_state(5.6) == "trial"
        health.record_success(TRIAL, 5.7)
        assert health.find_state(5.7) == "available"
        assert not health.is_ejected
    assert [line["event"] for line in lines] == ["upstream_ejected", "upstream_restored"]
    assert {**lines[0], "seconds": 0} == {
        "event": "upstream_ejected",
        "log_level": "warning",
        "upstream": "a",
        "model": "m",
        "reason": "failures",
        "seconds": 0,
    }
    fail(health, 5, now=6.0)
    assert (health.find_end(6.0) or 0) - 6.0 == pytest.approx(5, rel=0.1)  # the first in a row again


def test_a_trial_without_a_result_lets_another_begin() -> None:
    health = make_health()
    fail(health, 5)
    health.begin_attempt(TRIAL, 9.0)
    health.end_attempt(TRIAL)
    assert health.find_state(9.0) == "available"
    assert health.is_ejected


def test_a_late_failure_does_not_change_an_ejection() -> None:
    health = make_health()
    fail(health, 5)
    end = health.find_end(0.0)
    fail(health, 5, now=1.0)
    assert health.find_end(1.0) == end


def test_a_failed_trial_is_logged_once() -> None:
    health = make_health()
    with capture_logs() as lines:
        fail(health, 5)
        health.begin_attempt(TRIAL, 9.0)
        health.record_failure(TRIAL, 1.0, 9.0, may_eject=True)
    assert len(lines) == 1


def test_the_longest_ejection_has_no_jitter() -> None:
    health = make_health(eject_max_s=60)
    health.eject("unauthorized", 0.0, longest=True)
    assert health.find_end(0.0) == 60


def test_an_upstream_that_is_well_again_gets_a_trial_at_once() -> None:
    health = make_health()
    health.end_ejection(0.0)
    fail(health, 5)
    health.end_ejection(1.0)
    assert health.find_state(1.0) == "available"
    assert health.is_ejected


PARKED: dict[str, tuple[float | None, float]] = {
    "a named time": (7.0, 7.0),
    "no time": (None, 1.0),
    "a time that is too long": (9999.0, 300.0),
    "at once": (0.0, 0.0),
}


@pytest.mark.parametrize(("seconds", "parked_s"), PARKED.values(), ids=PARKED)
def test_a_rate_limit_parks_for_its_time(seconds: float | None, parked_s: float) -> None:
    health = make_health()
    health.park("rate_limit_exceeded", seconds, 0.0)
    assert health.find_end(0.0) == (parked_s or None)
    assert health.find_state(max(0.0, parked_s - 0.01)) == ("parked" if parked_s else "available")
    assert health.find_state(parked_s) == "available"


def test_a_shorter_limit_does_not_end_a_longer_one() -> None:
    health = make_health()
    health.park("insufficient_quota", 60, 0.0)
    health.park("rate_limit_exceeded", 1, 0.0)
    assert health.find_end(0.0) == 60


def test_new_settings_count_from_the_next_ejection_on() -> None:
    health = make_health()
    health.use_settings(RoutingSettings(eject_failures=1))
    fail(health, 1)
    assert health.find_state(0.0) == "ejected"
