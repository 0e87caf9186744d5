"""Reports on the upstreams of one name: their shares, whether they can serve a request, and their state."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gateway.upstreams.affinity import AffinityKey, rank_candidates
from gateway.upstreams.candidates import Candidate, find_sharing
from gateway.upstreams.registry import Sharing
from translation.representation.json_types import Json


class UpstreamFacts(NamedTuple):
    """The facts of a report about one upstream, besides its state."""

    provider: str
    model: str
    candidate: Candidate
    refusal: str | None = None
    """Why it cannot serve the request; None if it can."""
    losses: Sequence[str] = ()
    """The parameters of the request that it would not honour."""


def build_routing_report(
    model: str, sharing: Sharing, upstreams: Sequence[UpstreamFacts], key: AffinityKey | None, now: float | None
) -> Json:
    """Returns the report on a name, its upstreams in the order of their ranking. Without `now` their state is unknown.

    Without a key they are in the order of the configuration.
    """
    shares = dict(zip(_list_indexes(upstreams), find_sharing([each.candidate for each in upstreams]), strict=True))
    by_index = {each.candidate.index: each for each in upstreams}
    usable = [each.candidate for each in upstreams if each.candidate.weight > 0 and each.refusal is None]
    ranked = usable if key is None else sorted(rank_candidates(key, usable), key=lambda each: each.tier)
    others = [each.candidate for each in upstreams if each.candidate not in ranked]
    return {
        "model": model,
        "balance": sharing.balance,
        "affinity": {"kind": None if key is None else key.kind, "order": [each.upstream for each in ranked]},
        "upstreams": [_describe(by_index[each.index], shares[each.index], now) for each in (*ranked, *others)],
    }


def find_unavailable(sharing_names: Mapping[str, Sequence[Candidate]], now: float) -> list[str]:
    """Returns the names without an available upstream."""
    return [
        name
        for name, candidates in sharing_names.items()
        if not any(each.weight > 0 and each.find_state(now) in ("available", "full") for each in candidates)
    ]


def render_routing_report(report: Json) -> list[str]:
    """Returns the lines of a report for people: one for each upstream, after the name and its affinity."""
    affinity = report["affinity"]
    kind = "no affinity key" if affinity["kind"] is None else f"affinity by {affinity['kind']}"
    lines = [f"{report['model']}: {report['balance']}, {kind}"]
    for each in report["upstreams"]:
        pieces = [f"tier {each['tier']}", f"{each['share']:.0%}"]
        pieces.append(each["state"] if each["until_s"] is None else f"{each['state']} for {each['until_s']:g} s")
        if each["in_flight"] is not None:
            limit = "" if each["max_in_flight"] is None else f" of {each['max_in_flight']}"
            pieces.append(f"{each['in_flight']}{limit} in flight")
        if each["waiting"]:
            pieces.append(f"{each['waiting']} waiting")
        if not each["eligible"]:
            pieces.append(f"not used: {each['reason']}")
        if each["losses"]:
            pieces.append(f"loses {', '.join(each['losses'])}")
        lines.append(f"  {each['upstream']} ({each['model']}): {', '.join(pieces)}")
    return lines


def _list_indexes(upstreams: Sequence[UpstreamFacts]) -> list[int]:
    return [each.candidate.index for each in upstreams]


def _describe(facts: UpstreamFacts, share: float, now: float | None) -> Json:
    candidate = facts.candidate
    reason = facts.refusal or (None if candidate.weight > 0 else "weight is 0")
    end = None if now is None else candidate.health.find_end(now)
    return {
        "upstream": candidate.upstream,
        "provider": facts.provider,
        "model": facts.model,
        "tier": candidate.tier,
        "weight": candidate.weight,
        "share": round(share, 4),
        "eligible": reason is None,
        "reason": reason,
        "losses": list(facts.losses),
        "state": "unknown" if now is None else candidate.find_state(now),
        "until_s": None if end is None or now is None else round(end - now, 1),
        "in_flight": None if now is None else candidate.load.in_flight,
        "max_in_flight": candidate.load.limit,
        "load": candidate.load.report,
        "waiting": None if now is None else candidate.load.find_waiting(now),
        "ejections": None if now is None else candidate.health.ejections,
    }
