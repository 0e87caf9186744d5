"""Chooses one of several candidates: by weight, by attempts in progress, or by the time to first content."""

import random
from collections.abc import Callable, Sequence
from itertools import accumulate
from statistics import median

from gateway.config.routing_settings import Balance
from gateway.upstreams.candidates import Candidate


def choose_candidate(candidates: Sequence[Candidate], balance: Balance, rng: random.Random, now: float) -> Candidate:
    """Returns one of the candidates. There is at least one, and all have a weight above 0."""
    if len(candidates) == 1:
        return candidates[0]
    if balance == "weighted":
        return candidates[draw_by_weight(candidates, rng)]
    first, second = _draw_two(candidates, rng)
    cost = _measure_latency(candidates) if balance == "latency" else _measure_load(now)
    return second if cost(second) < cost(first) else first


def choose_equal(equals: Sequence[Candidate], rng: random.Random, now: float) -> Candidate | None:
    """Draws two of some candidates with the same weight, and returns the less busy one. `choose_candidate` makes the
    same choice if all are available. Returns None if one of the two may not be available."""
    if len(equals) == 1:
        return equals[0] if equals[0].is_surely_available(now) else None
    place, other = int(rng.random() * len(equals)), int(rng.random() * (len(equals) - 1))
    first, second = equals[place], equals[other + (other >= place)]
    if not (first.is_surely_available(now) and second.is_surely_available(now)):
        return None
    return second if second.load.count_turns(now) < first.load.count_turns(now) else first


def draw_by_weight(candidates: Sequence[Candidate], rng: random.Random) -> int:
    """Returns the place of a candidate, which is drawn by weight."""
    sums = list(accumulate(candidate.weight for candidate in candidates))
    drawn = rng.random() * sums[-1]
    return next((place for place, up_to in enumerate(sums) if drawn < up_to), len(sums) - 1)


def _draw_two(candidates: Sequence[Candidate], rng: random.Random) -> tuple[Candidate, Candidate]:
    """Returns two different candidates, drawn by weight. Comparing all would send every burst to the same one."""
    weight = candidates[0].weight
    if all(each.weight == weight for each in candidates):  # as in most fleets, where this is much cheaper
        place, other = int(rng.random() * len(candidates)), int(rng.random() * (len(candidates) - 1))
        return candidates[place], candidates[other + (other >= place)]
    first = draw_by_weight(candidates, rng)
    others = [*candidates[:first], *candidates[first + 1 :]]
    return candidates[first], others[draw_by_weight(others, rng)]


def _measure_load(now: float) -> Callable[[Candidate], float]:
    return lambda each: each.load.count_turns(now) / each.weight


def _measure_latency(candidates: Sequence[Candidate]) -> Callable[[Candidate], float]:
    """Returns the expected wait. A candidate without samples has the median of the others."""
    known = [each.content_times.average for each in candidates if each.content_times.average is not None]
    default = median(known) if known else 1.0

    def measure(each: Candidate) -> float:
        average = each.content_times.average
        return (default if average is None else average) * (each.load.in_flight + 1) / each.weight

    return measure
