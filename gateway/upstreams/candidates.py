"""Upstreams that may serve a turn, and which of them are available."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from gateway.upstreams.health import UpstreamHealth
from gateway.upstreams.load import ContentTimes, ProviderLoad

CandidateState: TypeAlias = Literal["available", "parked", "ejected", "trial", "full"]


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """One upstream of a name. `index` is its place among the rows of the name."""

    index: int
    upstream: str
    """Its name for clients and logs."""
    weight: float
    tier: int
    health: UpstreamHealth
    load: ProviderLoad
    content_times: ContentTimes

    def find_state(self, now: float) -> CandidateState:
        """Returns whether it can get a turn now, or why it cannot."""
        state = self.health.find_state(now)
        return "full" if state == "available" and self.load.is_full else state

    def is_surely_available(self, now: float) -> bool:
        """Whether it is certainly available. It is a quick check: False only means that `find_state` has to be
        asked."""
        health, load = self.health, self.load
        return (
            health.ejected_until is None
            and now >= health.parked_until
            and (load.limit is None or load.in_flight < load.limit)
        )


class TurnCandidates(NamedTuple):
    """The upstreams of a name that may get turns, prepared once for all turns."""

    all: Sequence[Candidate]
    equals: Sequence[Candidate]
    """Those of the lowest tier if all of them have the same weight, so that the quick choice of `choose_equal` applies;
    otherwise none."""
    had_others: bool = False
    """Whether there were other candidates before some were left out."""

    @property
    def may_eject(self) -> bool:
        """Whether another upstream of the name can take turns of one that is ejected, although perhaps not this one."""
        return self.had_others or len(self.all) > 1

    def select(self, indexes: Collection[int]) -> "TurnCandidates":
        """Returns the candidates with these indexes."""
        return TurnCandidates([each for each in self.all if each.index in indexes], (), self.may_eject)


def prepare_candidates(candidates: Iterable[Candidate]) -> TurnCandidates:
    """Returns the candidates with a weight."""
    weighted = tuple(each for each in candidates if each.weight > 0)
    lowest = min((each.tier for each in weighted), default=0)
    first = tuple(each for each in weighted if each.tier == lowest)
    return TurnCandidates(weighted, first if len({each.weight for each in first}) == 1 else ())


def select_available(candidates: Iterable[Candidate], now: float) -> list[Candidate]:
    """Returns the available candidates of the lowest tier that has any."""
    available: list[Candidate] = []
    for candidate in candidates:
        if available and candidate.tier > available[0].tier:
            continue
        if candidate.find_state(now) == "available":
            if available and candidate.tier < available[0].tier:
                available.clear()
            available.append(candidate)
    return available


def order_by_ejection(candidates: Iterable[Candidate], now: float) -> list[Candidate]:
    """Returns the ejected candidates of the lowest tier that has any, the soonest end of an ejection first.

    A turn goes to them if no other upstream can serve it. Parked ones are left out, because they have refused further
    requests for a while.
    """
    ejected = [each for each in candidates if each.find_state(now) in ("ejected", "trial")]
    lowest = min((each.tier for each in ejected), default=0)
    return sorted(
        (each for each in ejected if each.tier == lowest and not each.load.is_full),
        key=lambda each: each.health.find_end(now) or now,
    )


def find_sharing(candidates: Sequence[Candidate]) -> Sequence[float]:
    """Returns the share of turns without a key that each candidate of the lowest tier gets. Others get 0."""
    lowest = min((each.tier for each in candidates if each.weight > 0), default=0)
    total = sum(each.weight for each in candidates if each.tier == lowest)
    return [each.weight / total if each.tier == lowest and total else 0.0 for each in candidates]
