"""A turn made ready for its upstream: what that cannot do refused or dropped, tools in a shape it knows."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from gateway.planning.capability_check import fit
from gateway.planning.resolver import Route
from gateway.replies.client_params import ClientParams
from gateway.replies.endpoints import Endpoint
from gateway.replies.reply_streams import CallMapping
from providers.base import Batch, Dialect, Exchange
from providers.new_id import new_id
from translation.errors import InvalidRequest
from translation.hygiene.reply import ReplyTidier
from translation.hygiene.turn import tidied
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn
from translation.responses.compaction import windowed
from translation.tools.bridge import bridge, is_speech


def lifted(
    endpoint: Endpoint, body: Json, route: Route, earlier: int, *, native: bool = False
) -> tuple[Turn, ClientParams]:
    """What a body asks of its upstream's model, and how its parameters are called; the input begins with `earlier`
    items of history. `native`: the upstream has compaction items of its own. Raises InvalidRequest."""
    turn = endpoint.lift(body, model=route.upstream_model)
    params = ClientParams(endpoint.dialect, body, turn, earlier)
    if endpoint.dialect == "chat":
        return turn, params
    try:
        read = windowed(turn, native=native)
    except InvalidRequest as refused:
        params.rename(refused)
        raise
    return (turn, params) if read is turn else (read, ClientParams(endpoint.dialect, body, read, earlier))


def opened(turn: Turn, route: Route) -> Turn:
    """A turn with what the upstream needs back of its items. Raises StoreUnavailable."""
    return turn if route.carrier is None else route.carrier.opened_turn(turn)


def ready(turn: Turn, route: Route, dialect: Dialect, losses: list[Loss]) -> tuple[Turn, CallMapping | None]:
    """The turn as its upstream can be told it, and what maps the function calls of the reply back to the client's
    tools. `dialect` is the client's.

    Raises InvalidRequest, StoreUnavailable; parameters and losses are in the turn's own words.
    """
    fitted, _ = fit(opened(turn, route), route.capabilities, dialect, losses, relayed=False)
    if is_speech(fitted):
        # Most turns; asking each of the next steps what it has to do there takes a tenth of planning them.
        return fitted, _mapping(fitted, route.profile, None)
    bridged = bridge(fitted, kinds=route.capabilities.tool_kinds, hosted=route.capabilities.hosted_tools)
    losses += bridged.losses
    tidy = tidied(bridged.turn, route.profile, losses)
    return tidy, _mapping(tidy, route.profile, bridged.calls)


def _mapping(turn: Turn, profile: Profile, calls: CallMapping | None) -> CallMapping | None:
    """What the events of a reply go through; nothing where no call can be in them."""
    if turn.tools or profile.fix_empty_final:
        return ReplyTidier(turn, profile, new_id, None if calls is None else calls.feed)
    return calls


def said(turn: Turn, route: Route, dialect: Dialect) -> tuple[Exchange, CallMapping | None, list[Loss]]:
    """The exchange that asks a turn, what maps the function calls of its events back to the client's tools, and what is
    lost; nothing is sent. Raises as `ready` does."""
    losses: list[Loss] = []
    able, calls = ready(turn, route, dialect, losses)
    profile = route.profile
    if profile.cite_documents and dialect == "chat":
        profile = replace(profile, cite_documents=False)  # chat can say which address it cites, not which file
    exchange = route.provider.prepare(able, profile)
    losses += exchange.losses
    return exchange, calls, losses


def saying(route: Route) -> Callable[[Turn], Exchange]:
    """How turns of the Responses API are asked of a route: to exchanges whose events are in the client's terms."""

    def say(turn: Turn) -> Exchange:
        exchange, calls, _ = said(turn, route, "responses")
        return exchange if calls is None else MappedExchange(exchange, calls)

    return say


class MappedExchange:
    """An exchange with its calls in the client's terms."""

    def __init__(self, exchange: Exchange, calls: CallMapping) -> None:
        self.losses: Final = exchange.losses
        self._exchange = exchange
        self._calls = calls

    async def batches(self) -> AsyncGenerator[Batch, None]:
        async with aclosing(self._exchange.batches()) as batches:
            async for batch in batches:
                yield self._calls.feed(batch)
