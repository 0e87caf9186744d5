"""gateway/upstreams/balance.py: the distribution of turns by weight, load and latency."""

from collections import Counter

import pytest

from gateway.upstreams.balance import choose_candidate, choose_equal
from gateway.upstreams.candidates import prepare_candidates, select_available
from tests.unit.gateway.upstreams.fleet_states import Fleet

ROUNDS = 20_000


def shares(fleet: Fleet, balance: str) -> list[float]:
    chosen = Counter(
        choose_candidate(fleet.candidates, balance, fleet.rng, fleet.clock.now).index  # type: ignore[arg-type]
        for _ in range(ROUNDS)
    )
    return [round(chosen[number] / ROUNDS, 2) for number in range(len(fleet.candidates))]


def test_weights_are_shares() -> None:
    assert shares(Fleet((2, 0), (1, 0), (1, 0)), "weighted") == pytest.approx([0.5, 0.25, 0.25], abs=0.02)


@pytest.mark.parametrize("balance", ["least_busy", "latency", "weighted"])
def test_idle_upstreams_get_the_shares_of_their_weights_on_average(balance: str) -> None:
    fleet = Fleet((1, 0), (1, 0))
    assert shares(fleet, balance) == pytest.approx([0.5, 0.5], abs=0.02)


def test_the_less_busy_of_two_is_chosen_by_its_load_over_its_weight() -> None:
    fleet = Fleet((1, 0), (1, 0))
    fleet.candidates[0].load.in_flight = 1
    assert shares(fleet, "least_busy") == [0, 1]
    fleet = Fleet((4, 0), (1, 0))
    fleet.candidates[0].load.in_flight = 3
    fleet.candidates[1].load.in_flight = 1
    assert shares(fleet, "least_busy") == [1, 0]


def test_the_busiest_of_three_gets_nothing_and_the_idlest_most() -> None:
    fleet = Fleet((1, 0), (1, 0), (1, 0))
    for number, count in enumerate((5, 1, 0)):
        fleet.candidates[number].load.in_flight = count
    assert shares(fleet, "least_busy") == pytest.approx([0, 1 / 3, 2 / 3], abs=0.02)


def test_a_report_of_waiting_requests_counts_for_five_seconds() -> None:
    fleet = Fleet((1, 0), (1, 0))
    fleet.candidates[0].load.report_waiting(3, fleet.clock.now)
    assert shares(fleet, "least_busy") == [0, 1]
    fleet.clock.now += 5.1
    assert shares(fleet, "least_busy") == pytest.approx([0.5, 0.5], abs=0.02)


def test_latency_prefers_the_upstream_that_replies_sooner_for_its_load() -> None:
    fleet = Fleet((1, 0), (1, 0))
    fleet.candidates[0].content_times.add(0.2, fleet.clock.now)
    fleet.candidates[1].content_times.add(0.5, fleet.clock.now)
    assert shares(fleet, "latency") == [1, 0]
    fleet.candidates[0].load.in_flight = 2
    assert shares(fleet, "latency") == [0, 1]


def test_an_upstream_without_samples_has_the_median_of_the_others() -> None:
    fleet = Fleet((1, 0), (1, 0), (1, 0))
    fleet.candidates[0].content_times.add(1.0, fleet.clock.now)
    fleet.candidates[1].content_times.add(3.0, fleet.clock.now)
    # 2.0 for the third: it wins against the second, and loses against the first.
    assert shares(fleet, "latency") == pytest.approx([2 / 3, 0, 1 / 3], abs=0.02)


def test_a_slower_sample_counts_at_once_and_a_faster_one_by_its_age() -> None:
    fleet = Fleet((1, 0))
    times = fleet.candidates[0].content_times
    times.add(1.0, 0.0)
    times.add(4.0, 0.1)
    assert times.average == 4.0
    times.add(1.0, 0.1)
    assert times.average == 4.0
    times.add(1.0, 10.1)
    assert times.average == pytest.approx(4.0 - 3.0 * (1 - 1 / 2.718281828))


@pytest.mark.parametrize(
    ("rows", "all_of", "equals"),
    [
        ([(1, 0), (1, 0), (1, 0)], [0, 1, 2], [0, 1, 2]),
        ([(2, 0), (1, 0)], [0, 1], []),
        ([(1, 1), (1, 0), (1, 1), (1, 0)], [0, 1, 2, 3], [1, 3]),
        ([(0, 0), (3, 0), (3, 0)], [1, 2], [1, 2]),
        ([(5, 0), (1, 1), (2, 1)], [0, 1, 2], [0]),
        ([(0, 0)], [], []),
    ],
)
def test_candidates_are_prepared_once(rows: list[tuple[float, int]], all_of: list[int], equals: list[int]) -> None:
    prepared = prepare_candidates(Fleet(*rows).candidates)
    assert [each.index for each in prepared.all] == all_of
    assert [each.index for each in prepared.equals] == equals


@pytest.mark.parametrize("loads", [(0, 0, 0), (5, 1, 0), (2, 2, 2)])
def test_equals_are_chosen_like_others_if_all_are_available(loads: tuple[int, ...]) -> None:
    slow, quick = Fleet(*[(1, 0)] * 3), Fleet(*[(1, 0)] * 3)
    for fleet in (slow, quick):
        for candidate, count in zip(fleet.candidates, loads, strict=True):
            candidate.load.in_flight = count
    for _ in range(200):
        expected = choose_candidate(slow.candidates, "least_busy", slow.rng, slow.clock.now)
        chosen = choose_equal(quick.candidates, quick.rng, quick.clock.now)
        assert chosen is not None
        assert chosen.index == expected.index


@pytest.mark.parametrize("trouble", ["ejected", "parked", "full"])
def test_one_that_is_not_available_is_never_chosen_quickly(trouble: str) -> None:
    fleet = Fleet(*[(1, 0)] * 3, limits=(1, None, None))
    first, now = fleet.candidates[0], fleet.clock.now
    if trouble == "ejected":
        first.health.eject("failures", now)
    elif trouble == "parked":
        first.health.park("rate_limit_exceeded", 10, now)
    else:
        first.load.begin_attempt()
    assert first not in select_available(fleet.candidates, now)
    chosen = Counter(
        each and each.index for each in (choose_equal(fleet.candidates, fleet.rng, now) for _ in range(600))
    )
    assert set(chosen) == {None, 1, 2}  # None: the choice takes the other way
    assert choose_equal([first], fleet.rng, now) is None
    assert choose_equal(fleet.candidates[1:2], fleet.rng, now) is fleet.candidates[1]
