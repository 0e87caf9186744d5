"""Turns whose context the gateway manages: compacted or shortened, because the request asks for it."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from gateway.planning.compaction import CompactingExchange, SummaryExchange, compactable, summary_turn
from gateway.planning.prepare_turn import said, saying
from gateway.planning.resolver import Route
from gateway.planning.token_counting import is_over
from gateway.planning.truncation import TrimmingExchange
from providers.base import Describing, Exchange
from translation.errors import Unrepresentable
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.turn import Turn
from translation.responses.compaction import is_triggered, threshold

_FULL = 0.75
"""The share of a known context window from which on it is compacted, where the request names no threshold."""

_THRESHOLD = "context_management[0].compact_threshold"


class Managed(NamedTuple):
    """The events of `exchange` are in the client's terms."""

    exchange: Exchange
    losses: Sequence[Loss]


def needs_management(body: Json) -> bool:
    """Whether a Responses body asks to have its context compacted or shortened."""
    asked = body.get("truncation") == "auto" or body.get("context_management")
    return bool(asked) or is_triggered(body.get("input"))


def managed(turn: Turn, body: Json, route: Route, tokens: int | None, report: Callable[[Loss], None]) -> Managed:
    """`tokens`: how many tokens the turn's history is known to be; `report` hears of what is lost while it runs.

    Raises InvalidRequest, Unrepresentable where the upstream cannot say how long the context is.
    """
    say = saying(route)
    if is_triggered(body.get("input")):
        parts = compactable(turn)
        _, _, losses = said(summary_turn(turn, parts.older), route, "responses")
        return Managed(SummaryExchange(turn, parts, say), losses)
    _, _, losses = said(turn, route, "responses")
    sent = partial(_trimming, say, report) if body.get("truncation") == "auto" else say
    entry = threshold(body.get("context_management"))
    if entry is None:
        return Managed(sent(turn), losses)
    limit = _limit(entry, route)
    if tokens is None and route.capabilities.counting == "none":
        raise Unrepresentable(
            "the model's upstream cannot count tokens, so nothing tells when to compact: leave out context_management",
            param="context_management",
        )
    return Managed(CompactingExchange(turn, say, sent, partial(is_over, limit, turn, route, tokens)), losses)


def _trimming(say: Callable[[Turn], Exchange], report: Callable[[Loss], None], turn: Turn) -> Exchange:
    return TrimmingExchange(turn, say, report)


async def with_threshold(body: Json, route: Route) -> Json:
    """A Responses body with the threshold that it leaves out, where only the upstream knows how much its model's
    context holds. Any other body as it is."""
    entry = threshold(body.get("context_management"))
    known = route.capabilities.max_context_window is not None
    if entry is None or entry.get("compact_threshold") is not None or known:
        return body
    if not isinstance(route.provider, Describing):
        return body
    window = (await route.provider.described(route.upstream_model, body)).get("max_context_window")
    if window is None:
        return body
    return {**body, "context_management": [{**entry, "compact_threshold": int(window * _FULL)}]}


def _limit(entry: Json, route: Route) -> int:
    if (given := entry.get("compact_threshold")) is not None:
        return int(given)
    if (window := route.capabilities.max_context_window) is not None:
        return int(window * _FULL)
    raise Unrepresentable(
        "how many tokens this model's context has is not known: say from how many on to compact", param=_THRESHOLD
    )
