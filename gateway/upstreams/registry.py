"""The state of all upstreams and names of one server process. It outlives reloads of the configuration."""

import random
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from itertools import islice
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from gateway.config.routing_settings import Balance, RoutingSettings, TurnRouting
from gateway.config.settings import Settings
from gateway.upstreams.affinity import ResponseMakers
from gateway.upstreams.candidates import Candidate
from gateway.upstreams.health import UpstreamHealth, UpstreamName
from gateway.upstreams.load import ProviderLoad
from gateway.upstreams.load_reports import LOAD_HEADER, read_load_header
from gateway.upstreams.retry_budget import RetryBudget
from gateway.upstreams.turn_counts import TurnCounts
from gateway.upstreams.waiting_turns import WaitingTurns

_MAX_UPSTREAMS: Final = 4096
"""The most upstreams that are kept. Patterns let clients choose names of models."""

_MAX_LOOKS: Final = 32
"""The most upstreams that are looked at to find one that may be forgotten."""


class NameState(NamedTuple):
    """The state of one name of the configuration."""

    budget: RetryBudget
    waiting: WaitingTurns
    counts: TurnCounts
    makers: ResponseMakers


class Sharing(NamedTuple):
    """How the turns of one name are shared between its upstreams."""

    name: str
    """The name or pattern as configured."""
    balance: Balance
    affinity: str
    routing: TurnRouting
    state: NameState
    repeats: bool = True
    """Whether failed attempts are repeated. For a name with one `provider` they are not: its turns are only counted,
    and wait for the provider's limit. Their outcomes do not change the provider's health, and clients get its failures
    unchanged."""


class UpstreamRegistry:
    """Holds the states, and creates one when it is asked for the first time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, rng: random.Random | None = None) -> None:
        self.clock = clock
        self.rng = rng or random.Random()
        self._settings = RoutingSettings()
        self._upstreams: OrderedDict[UpstreamName, UpstreamHealth] = OrderedDict()
        self._used: WeakValueDictionary[UpstreamName, UpstreamHealth] = WeakValueDictionary()
        """Those that routes and attempts refer to, also if they are not kept."""
        self._loads: dict[str, ProviderLoad] = {}
        self._names: dict[str, NameState] = {}

    def use_settings(self, settings: Settings) -> None:
        """Applies a new configuration. Attempts in progress keep their slots, even if there are more than a new limit
        allows."""
        self._settings = settings.routing
        for upstream in list(self._used.values()):
            upstream.use_settings(settings.routing)
        for name_state in self._names.values():
            name_state.budget.use_settings(settings.routing)
        for provider, config in settings.providers.items():
            load = self.find_load(provider)
            load.limit = config.max_in_flight
            load.report = config.find_load_report()
            load.note_change()
            load.offer_slots()

    @property
    def names(self) -> Mapping[str, NameState]:
        """The states of the names that share turns, by the name or pattern as configured."""
        return self._names

    @property
    def loads(self) -> Mapping[str, ProviderLoad]:
        """The loads of the providers, by their names."""
        return self._loads

    def find_load(self, provider: str) -> ProviderLoad:
        if (load := self._loads.get(provider)) is None:
            load = self._loads[provider] = ProviderLoad(clock=self.clock)
        return load

    def observe_heads_of(self, provider: str) -> Callable[[Mapping[bytes, bytes]], None]:
        """Returns a function that reads what the headers of the provider's replies report of its load."""
        load = self.find_load(provider)

        def observe_head(headers: Mapping[bytes, bytes]) -> None:
            if LOAD_HEADER in headers and (waiting := read_load_header(headers)) is not None:
                load.report_waiting(waiting, self.clock())

        return observe_head

    def find_upstream(self, name: UpstreamName) -> UpstreamHealth:
        """Returns what is known of an upstream, which all routes that have it share.

        If there are too many, one of which nothing has to be remembered is forgotten. If there is none, the new one is
        not kept: names that clients make up must not end the ejections of others.
        """
        if (health := self._upstreams.get(name)) is not None:
            self._upstreams.move_to_end(name)
            return health
        if (health := self._used.get(name)) is None:
            health = self._used[name] = self.build_health(name)
        if len(self._upstreams) < _MAX_UPSTREAMS or self._make_room():
            self._upstreams[name] = health
        return health

    def _make_room(self) -> bool:
        """Removes one of the upstreams that were not asked for lately. Returns whether one may be removed.

        Those that must stay become the last that are looked at again.
        """
        now, doubtful = self.clock(), None
        for name in list(islice(self._upstreams, _MAX_LOOKS)):
            worth = self._upstreams[name].find_worth(now)
            if worth == "none":
                del self._upstreams[name]
                return True
            if worth == "little":
                doubtful = doubtful or name
            self._upstreams.move_to_end(name)
        if doubtful is None:
            return False
        del self._upstreams[doubtful]
        return True

    def list_ejected(self, now: float) -> list[tuple[UpstreamName, UpstreamHealth]]:
        """Returns the upstreams whose ejection has not ended, those of patterns by each name that was requested."""
        return [(name, health) for name, health in list(self._used.items()) if health.find_state(now) == "ejected"]

    def build_health(self, name: UpstreamName) -> UpstreamHealth:
        """Returns a new health without any results, which no other candidate shares."""
        return UpstreamHealth(name, self._settings, self.rng, self.find_load(name.provider))

    def list_healths(self, provider: str, pattern: str) -> list[UpstreamHealth]:
        """Returns what is known of the provider's models whose names match the pattern."""
        return [
            health
            for name, health in list(self._upstreams.items())
            if name.provider == provider and name.model != pattern and fnmatchcase(name.model, pattern)
        ]

    def list_models(self) -> list[str]:
        """Returns the models of all upstreams that are known, the newest last."""
        return list(dict.fromkeys(name.model for name in self._upstreams))

    def find_name(self, name: str) -> NameState:
        if (state := self._names.get(name)) is None:
            state = self._names[name] = NameState(
                RetryBudget(self._settings, self.clock()), WaitingTurns(self.clock), TurnCounts(), ResponseMakers()
            )
        return state

    def build_candidate(self, index: int, name: UpstreamName, label: str, weight: float, tier: int) -> Candidate:
        """Returns the upstream in a row of a name as a candidate."""
        health = self.find_upstream(name)
        return Candidate(index, label, weight, tier, health, self.find_load(name.provider), health.content_times)
