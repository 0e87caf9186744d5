"""gateway/upstreams/retry_budget.py: how many repetitions a name has."""

from gateway.config.routing_settings import RoutingSettings
from gateway.upstreams.retry_budget import RetryBudget


def take_all(budget: RetryBudget, now: float = 0.0) -> int:
    return sum(1 for _ in range(1000) if budget.take(now))


def test_a_name_begins_with_ten_seconds_of_repetitions() -> None:
    assert take_all(RetryBudget(RoutingSettings(retries_per_s=3), 0.0)) == 30


def test_turns_and_seconds_add_to_it() -> None:
    budget = RetryBudget(RoutingSettings(retries_per_s=3, retry_share=0.2), 0.0)
    take_all(budget)
    for _ in range(10):
        budget.add_turn(0.0)
    assert take_all(budget) == 2
    assert take_all(budget, now=2.0) == 6
    assert take_all(budget, now=1000.0) == 30


def test_zeros_turn_repetitions_off() -> None:
    budget = RetryBudget(RoutingSettings(retries_per_s=0, retry_share=0), 0.0)
    for _ in range(100):
        budget.add_turn(0.0)
    assert take_all(budget, now=1000.0) == 0


def test_a_smaller_budget_of_a_reload_counts_at_once() -> None:
    budget = RetryBudget(RoutingSettings(retries_per_s=3), 0.0)
    budget.use_settings(RoutingSettings(retries_per_s=1))
    assert take_all(budget) == 10
