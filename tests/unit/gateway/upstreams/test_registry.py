"""The registry remembers a bounded number of upstreams. Names that clients make up displace nothing that matters."""

from collections.abc import Callable
from typing import Final

import pytest

from gateway.planning.resolver import Resolver
from gateway.upstreams import registry as registry_module
from gateway.upstreams.health import UpstreamHealth, UpstreamName
from gateway.upstreams.registry import UpstreamRegistry
from tests.unit.support.routing import Recorder
from tests.unit.support.routing import settings as build_settings

NAME: Final = UpstreamName("gpu", "llama")
LIMIT: Final = 64
FLOOD: Final = 10 * LIMIT


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "_MAX_UPSTREAMS", LIMIT)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def registry(clock: Clock) -> UpstreamRegistry:
    return UpstreamRegistry(clock)


def fail(health: UpstreamHealth, times: int = 1) -> None:
    for _ in range(times):
        health.record_failure(object(), 1.0, 0.0, may_eject=True)


def put_on_trial(health: UpstreamHealth) -> None:
    health.eject("failures", -1000.0)
    health.begin_attempt(object(), 0.0)


def limit_unknown(health: UpstreamHealth) -> None:
    health.eject("not_found", 0.0, longest=True)
    health.park("rate_limit_exceeded", 30.0, 0.0)


def flood(registry: UpstreamRegistry, change: Callable[[UpstreamHealth], object] = lambda _: None) -> None:
    """Asks for many names that a client makes up. `change` is what happens to each."""
    for number in range(FLOOD):
        change(registry.find_upstream(UpstreamName("gpu", f"made-up-{number}")))


CHANGES: dict[str, Callable[[UpstreamHealth], object]] = {
    "nothing": lambda health: None,
    "a success": lambda health: health.record_success(object(), 0.0),
    "an ejection that is over": lambda health: health.eject("failures", -1000.0),
    "a failure": fail,
    "an unknown name": lambda health: health.eject("not_found", 0.0, longest=True),
    "failures that eject": lambda health: fail(health, 5),
    "a refused key": lambda health: health.eject("unauthorized", 0.0, longest=True),
    "a rate limit": lambda health: health.park("rate_limit_exceeded", 30.0, 0.0),
    "a rate limit of an unknown name": limit_unknown,
    "a trial": put_on_trial,
}
WORTHS: Final = {
    "none": ["nothing", "a success", "an ejection that is over"],
    "little": ["a failure", "an unknown name"],
    "much": ["failures that eject", "a refused key", "a rate limit", "a rate limit of an unknown name", "a trial"],
}
RANKS: Final = {change: rank for rank, changes in enumerate(WORTHS.values()) for change in changes}


def test_every_change_has_a_rank() -> None:
    assert RANKS.keys() == CHANGES.keys()


@pytest.mark.parametrize("of_others", CHANGES)
@pytest.mark.parametrize("own", CHANGES)
def test_a_flood_of_names_displaces_only_what_matters_less(
    own: str, of_others: str, registry: UpstreamRegistry
) -> None:
    health = registry.find_upstream(NAME)
    CHANGES[own](health)
    number = id(health)
    del health
    flood(registry, CHANGES[of_others])
    names = registry.list_models()
    assert len(names) <= LIMIT
    is_kept = NAME.model in names
    if RANKS[own] == 2 or RANKS[own] > RANKS[of_others]:
        assert is_kept
        assert id(registry.find_upstream(NAME)) == number
    elif RANKS[own] == 0:
        assert not is_kept


@pytest.mark.parametrize("own", CHANGES)
def test_an_upstream_in_use_is_the_same_after_a_flood(own: str, registry: UpstreamRegistry) -> None:
    health = registry.find_upstream(NAME)
    CHANGES[own](health)
    flood(registry, CHANGES["failures that eject"])
    assert registry.find_upstream(NAME) is health
    assert health.content_times is registry.find_upstream(NAME).content_times


def test_ejections_that_a_flood_caused_make_room_once_they_are_over(registry: UpstreamRegistry, clock: Clock) -> None:
    flood(registry, CHANGES["a refused key"])
    unkept = registry.find_upstream(NAME)
    assert NAME.model not in registry.list_models()
    clock.now = 1000.0
    assert registry.find_upstream(NAME) is unkept
    assert NAME.model in registry.list_models()


def test_the_name_that_was_not_asked_for_the_longest_is_forgotten(registry: UpstreamRegistry) -> None:
    for number in range(LIMIT):
        registry.find_upstream(UpstreamName("gpu", f"m{number}"))
    registry.find_upstream(UpstreamName("gpu", "m0"))
    registry.find_upstream(NAME)
    names = registry.list_models()
    assert ("m0" in names, "m1" in names, NAME.model in names) == (True, False, True)


def test_an_ejection_under_a_pattern_outlives_names_that_a_client_makes_up(registry: UpstreamRegistry) -> None:
    settings = build_settings({"*": {"upstreams": [{"provider": "a"}, {"provider": "b"}]}}, "a", "b")
    registry.use_settings(settings)
    resolver = Resolver(settings, {name: Recorder(name) for name in ("a", "b")}, registry)
    candidate = resolver.resolve("llama").targets[0].candidate
    assert candidate is not None
    candidate.health.eject("failures", registry.clock())
    del candidate
    for number in range(FLOOD):
        for target in resolver.resolve(f"made-up-{number}").targets:
            assert target.candidate is not None
            target.candidate.health.eject("not_found", registry.clock(), longest=True)
    again = resolver.resolve("llama").targets[0].candidate
    assert again is not None
    assert again.find_state(registry.clock()) == "ejected"
    assert [name.model for name, _ in registry.list_ejected(registry.clock()) if name.model == "llama"] == ["llama"]
