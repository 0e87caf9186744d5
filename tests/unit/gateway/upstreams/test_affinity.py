"""gateway/upstreams/affinity.py: which key a request has, and which upstream a key prefers."""

from collections import Counter

import pytest

from gateway.upstreams.affinity import (
    AffinityFacts,
    AffinityKey,
    choose_by_key,
    find_affinity_key,
    make_prefix_key,
    rank_candidates,
)
from tests.unit.gateway.upstreams.fleet_states import Fleet, uniform

FACTS = AffinityFacts("cache", "conv_1", "resp_1")
HEADERS = {b"x-claude-code-session-id": b"s1", b"session-id": b"s2", b"session_id": b"s3", b"x-team": b"t"}

KEYS: dict[str, tuple[str, dict[bytes, bytes], AffinityFacts, tuple[str, bytes] | None]] = {
    "the cache key is first": ("auto", HEADERS, FACTS, ("prompt_cache_key", b"me\0cache")),
    "then Claude Code's session": ("auto", HEADERS, FACTS._replace(cache_key=None), ("session", b"me\0s1")),
    "then a session": ("auto", {b"session-id": b"s2", b"session_id": b"s3"}, AffinityFacts(), ("session", b"me\0s2")),
    "in either spelling": ("auto", {b"session_id": b"s3"}, AffinityFacts(), ("session", b"me\0s3")),
    "then the conversation": ("auto", {}, AffinityFacts(None, "conv_1", "r"), ("conversation", b"me\0conv_1")),
    "then the chain": ("auto", {}, AffinityFacts(chain_root="resp_1"), ("chain", b"me\0resp_1")),
    "else none": ("auto", {b"x-team": b"t"}, AffinityFacts(), None),
    "none turns it off": ("none", HEADERS, FACTS, None),
    "a header is the only key": ("header:X-Team", HEADERS, FACTS, ("header", b"me\0t")),
    "also if it is missing": ("header:x-other", HEADERS, FACTS, None),
    "an empty key is none": ("auto", {}, AffinityFacts(""), None),
    "nor is a long one": ("auto", {}, AffinityFacts("k" * 1025), None),
    "the longest": ("auto", {}, AffinityFacts("k" * 1024), ("prompt_cache_key", b"me\0" + b"k" * 1024)),
    "a long one leaves the next": ("auto", {}, AffinityFacts("k" * 1025, "c"), ("conversation", b"me\0c")),
    "half a character": ("auto", {}, AffinityFacts("\ud800"), ("prompt_cache_key", b"me\0\xed\xa0\x80")),
}


@pytest.mark.parametrize(("affinity", "headers", "facts", "key"), KEYS.values(), ids=KEYS)
def test_the_first_key_that_exists_counts(
    affinity: str, headers: dict[bytes, bytes], facts: AffinityFacts, key: tuple[str, bytes] | None
) -> None:
    assert find_affinity_key(affinity, headers, facts, "me") == key


def test_prefixes_have_no_owner() -> None:
    assert make_prefix_key("You are") == ("prefix", b"You are")
    assert make_prefix_key("") is None


def key(number: int) -> AffinityKey:
    return AffinityKey("session", b"%d" % number)


def firsts(fleet: Fleet, count: int = 2000) -> list[str]:
    return [rank_candidates(key(number), fleet.candidates)[0].upstream for number in range(count)]


def test_a_key_has_the_same_order_in_every_process() -> None:
    # Computed once: another order after an upgrade would move every session.
    orders = [
        "".join(each.upstream[1] for each in rank_candidates(key(number), uniform(4).candidates)) for number in range(5)
    ]
    assert orders == ORDERS


ORDERS = ["3021", "0312", "3102", "3210", "3102"]


def test_keys_are_shared_by_weight() -> None:
    counts = Counter(firsts(Fleet((2, 0), (1, 0), (1, 0)), 8000))
    assert [counts[f"u{number}"] / 8000 for number in range(3)] == pytest.approx([0.5, 0.25, 0.25], abs=0.03)


def test_a_new_upstream_takes_only_its_share_and_one_that_leaves_moves_only_its_own() -> None:
    three, four = firsts(uniform(3)), firsts(uniform(4))
    moved = [(before, after) for before, after in zip(three, four, strict=True) if before != after]
    assert len(moved) / len(three) == pytest.approx(0.25, abs=0.04)
    assert {after for _, after in moved} == {"u3"}


def test_a_busy_upstream_keeps_its_keys_up_to_the_bound() -> None:
    fleet = uniform(4)
    first, second = rank_candidates(key(0), fleet.candidates)[:2]
    # The bound is 1.25 x 0.5 + 2 = 2.625, and then 1.25 x 0.75 + 2 = 2.9375.
    first.load.in_flight = 2
    assert choose_by_key(key(0), fleet.candidates) is first
    first.load.in_flight = 3
    assert choose_by_key(key(0), fleet.candidates) is second


def test_the_bound_counts_load_over_weight() -> None:
    fleet = Fleet((10, 0), (1, 0))
    heavy, light = fleet.candidates
    heavy.load.in_flight = 11
    assert choose_by_key(AffinityKey("session", b"x"), fleet.candidates) in (heavy, light)
    ranked_heavy = next(number for number in range(100) if rank_candidates(key(number), fleet.candidates)[0] is heavy)
    assert choose_by_key(key(ranked_heavy), fleet.candidates) is heavy


def test_one_hot_key_is_spread_over_upstreams_once_the_first_is_full() -> None:
    fleet = uniform(4)
    for _ in range(40):
        choose_by_key(key(0), fleet.candidates).load.begin_attempt()
    loads = [candidate.load.in_flight for candidate in fleet.candidates]
    assert max(loads) <= 1.25 * 10 + 3
    assert sum(load > 0 for load in loads) == 3  # the fourth is not needed
