"""Prepares turns whose context the gateway compacts or truncates, because the request asks for it."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from gateway.planning.compaction import CompactingExchange, SummaryExchange, build_summary_turn, require_compactable
from gateway.planning.prepare_turn import make_exchange_factory, prepare_exchange
from gateway.planning.resolver import Route
from gateway.planning.token_counting import exceeds_token_limit
from gateway.planning.truncation import TruncatingExchange
from providers.base import Exchange, ModelInspector
from translation.errors import Unrepresentable
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.turn import Turn
from translation.responses.compaction import find_lowest_threshold, has_compaction_trigger

_COMPACTION_SHARE = 0.75
"""The share of a known context window that triggers compaction, if the request has no threshold."""

_THRESHOLD_PARAM = "context_management[0].compact_threshold"


class ManagedExchange(NamedTuple):
    """An exchange whose events are in the client's terms (see `MappedExchange`), and its losses known in advance."""

    exchange: Exchange
    losses: Sequence[Loss]


def needs_context_management(body: Json) -> bool:
    """Whether a Responses body asks for compaction or truncation of its context."""
    return asks_for_truncation(body) or needs_compaction(body)


def asks_for_truncation(body: Json) -> bool:
    """Whether the oldest items of a Responses body may be left out if its input is too long."""
    return body.get("truncation") == "auto"


def needs_compaction(body: Json) -> bool:
    """Whether a Responses body asks for compaction of its context."""
    return bool(body.get("context_management")) or has_compaction_trigger(body.get("input"))


def prepare_managed_exchange(
    turn: Turn, body: Json, route: Route, history_tokens: int | None, report_loss: Callable[[Loss], None]
) -> ManagedExchange:
    """Returns the exchange that compacts, truncates, or both, as the body requests.

    `history_tokens` is the number of tokens of the turn's history, if known. `report_loss` is called with losses that
    occur while the exchange runs. Raises InvalidRequest; Unrepresentable if the upstream cannot count tokens.
    """
    make_exchange = make_exchange_factory(route)
    if has_compaction_trigger(body.get("input")):
        parts = require_compactable(turn)
        _, _, losses = prepare_exchange(build_summary_turn(turn, parts.summarizable), route, "responses")
        return ManagedExchange(SummaryExchange(turn, parts, make_exchange), losses)
    _, _, losses = prepare_exchange(turn, route, "responses")
    make_sent_exchange = (
        partial(make_truncating_exchange, make_exchange, report_loss) if asks_for_truncation(body) else make_exchange
    )
    entry = find_lowest_threshold(body.get("context_management"))
    if entry is None:
        return ManagedExchange(make_sent_exchange(turn), losses)
    limit = find_threshold(entry, route)
    require_token_counts(route, history_tokens)
    return ManagedExchange(
        CompactingExchange(
            turn, make_exchange, make_sent_exchange, partial(exceeds_token_limit, limit, turn, route, history_tokens)
        ),
        losses,
    )


def make_truncating_exchange(
    make_exchange: Callable[[Turn], Exchange], report_loss: Callable[[Loss], None], turn: Turn
) -> Exchange:
    """Returns an exchange that leaves out the oldest items of a turn that is too long, and reports the loss."""
    return TruncatingExchange(turn, make_exchange, report_loss)


def require_token_counts(route: Route, history_tokens: int | None) -> None:
    """Raises Unrepresentable if the token count of an input that may have to be compacted is unknown."""
    if history_tokens is None and route.capabilities.counting == "none":
        raise Unrepresentable(
            "the model's upstream cannot count tokens, which context_management needs: leave it out",
            param="context_management",
        )


async def fill_compaction_threshold(body: Json, route: Route) -> Json:
    """Returns a Responses body with a `compact_threshold`, if it has none and only the upstream knows the window.

    The threshold is a share of the context window that the upstream reports. Any other body is returned unchanged.
    """
    entry = find_lowest_threshold(body.get("context_management"))
    is_window_known = route.capabilities.max_context_window is not None
    if entry is None or entry.get("compact_threshold") is not None or is_window_known:
        return body
    if not isinstance(route.provider, ModelInspector):
        return body
    window = (await route.provider.fetch_model_capabilities(route.upstream_model, body)).get("max_context_window")
    if window is None:
        return body
    return {**body, "context_management": [{**entry, "compact_threshold": int(window * _COMPACTION_SHARE)}]}


def find_threshold(entry: Json, route: Route) -> int:
    """Returns the number of tokens above which an entry of `context_management` asks for a compaction.

    Raises Unrepresentable if the request has no threshold and the context window is unknown.
    """
    if (threshold := entry.get("compact_threshold")) is not None:
        return int(threshold)
    if (window := route.capabilities.max_context_window) is not None:
        return int(window * _COMPACTION_SHARE)
    raise Unrepresentable(
        "the size of this model's context window is not known: send compact_threshold", param=_THRESHOLD_PARAM
    )
