"""Candidates and turns with a clock and a randomness of the test."""

import random
from collections.abc import Sequence

from gateway.config.routing_settings import Balance, RoutingSettings, TurnRouting
from gateway.config.settings import parse_settings
from gateway.upstreams.affinity import AffinityKey
from gateway.upstreams.candidates import Candidate, prepare_candidates
from gateway.upstreams.health import UpstreamName
from gateway.upstreams.registry import Sharing, UpstreamRegistry
from gateway.upstreams.shared_turn import SharedTurn


class Clock:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Fleet:
    """Upstreams of one name, with their state."""

    def __init__(
        self,
        *rows: tuple[float, int],
        limits: Sequence[int | None] = (),
        balance: Balance = "least_busy",
        seed: int = 1,
        **routing: object,
    ) -> None:
        self.clock = Clock()
        self.rng = random.Random(seed)
        self.settings = RoutingSettings.model_validate(routing)
        self.registry = UpstreamRegistry(self.clock, self.rng)
        providers = {f"u{number}": {"type": "scripted", "max_in_flight": limit} for number, limit in enumerate(limits)}
        self.registry.use_settings(parse_settings({"providers": providers, "routing": routing}, environ={}))
        self.candidates: list[Candidate] = [
            self.registry.build_candidate(number, UpstreamName(f"u{number}", "m"), f"u{number}", weight, tier)
            for number, (weight, tier) in enumerate(rows)
        ]
        turn_routing = TurnRouting.model_construct(
            **{name: getattr(self.settings, name) for name in TurnRouting.model_fields}
        )
        self.sharing = Sharing("m", balance, "auto", turn_routing, self.registry.find_name("m"))

    def begin_turn(self, key: AffinityKey | None = None, preferred: str | None = None) -> SharedTurn:
        candidates = prepare_candidates(self.candidates)
        turn = SharedTurn(self.sharing, candidates, key, clock=self.clock, rng=self.rng, preferred=preferred)
        turn.propose()
        return turn

    def states(self) -> list[str]:
        return [candidate.find_state(self.clock.now) for candidate in self.candidates]


def uniform(count: int, **routing: object) -> Fleet:
    """Returns upstreams that are all alike."""
    return Fleet(*[(1.0, 0)] * count, **routing)  # type: ignore[arg-type]
