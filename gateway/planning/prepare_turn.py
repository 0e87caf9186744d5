"""A turn made ready for its upstream: what that cannot do refused or dropped, tools in a shape it knows."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from gateway.planning.capability_check import apply_capabilities
from gateway.planning.resolver import Route
from gateway.replies.client_params import ClientParams
from gateway.replies.endpoints import Endpoint
from providers.base import Batch, Dialect, Exchange
from providers.new_id import new_id
from translation.errors import InvalidRequest
from translation.hygiene.reply import ReplyNormalizer
from translation.hygiene.turn import normalize_turn
from translation.representation.event_stage import EventStage
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn
from translation.responses.compaction import apply_compaction_to_turn
from translation.tools.bridge import bridge_tools, is_tool_free


def lift_body(
    endpoint: Endpoint, body: Json, route: Route, history_count: int, *, native_compaction: bool = False
) -> tuple[Turn, ClientParams]:
    """What a body asks of its upstream's model, and how its parameters are called; the input begins with `earlier`
    items of history. `native`: the upstream has compaction items of its own. Raises InvalidRequest."""
    turn = endpoint.lift(body, model=route.upstream_model)
    params = ClientParams(endpoint.dialect, body, turn, history_count)
    if endpoint.dialect == "chat":
        return turn, params
    try:
        windowed_turn = apply_compaction_to_turn(turn, native=native_compaction)
    except InvalidRequest as refused:
        params.rename_param_of(refused)
        raise
    return (
        (turn, params)
        if windowed_turn is turn
        else (windowed_turn, ClientParams(endpoint.dialect, body, windowed_turn, history_count))
    )


def unseal_turn(turn: Turn, route: Route) -> Turn:
    """A turn with what the upstream needs back of its items. Raises StoreUnavailable."""
    return turn if route.reasoning_seal is None else route.reasoning_seal.unseal_turn(turn)


def prepare_turn(turn: Turn, route: Route, dialect: Dialect, losses: list[Loss]) -> tuple[Turn, EventStage | None]:
    """The turn as its upstream can be told it, and what maps the function calls of the reply back to the client's
    tools. `dialect` is the client's.

    Raises InvalidRequest, StoreUnavailable; parameters and losses are in the turn's own words.
    """
    fitted, _ = apply_capabilities(unseal_turn(turn, route), route.capabilities, dialect, losses, relayed=False)
    if is_tool_free(fitted):
        # Most turns; asking each of the next steps what it has to do there takes a tenth of planning them.
        return fitted, _build_event_stage(fitted, route.profile, None)
    bridged = bridge_tools(fitted, kinds=route.capabilities.tool_kinds, hosted=route.capabilities.hosted_tools)
    losses += bridged.losses
    tidy = normalize_turn(bridged.turn, route.profile, losses)
    return tidy, _build_event_stage(tidy, route.profile, bridged.call_mapper)


def _build_event_stage(turn: Turn, profile: Profile, call_mapper: EventStage | None) -> EventStage | None:
    """What the events of a reply go through; nothing where no call can be in them."""
    if turn.tools or profile.fix_empty_final:
        return ReplyNormalizer(turn, profile, new_id, call_mapper)
    return call_mapper


def prepare_exchange(turn: Turn, route: Route, dialect: Dialect) -> tuple[Exchange, EventStage | None, list[Loss]]:
    """The exchange that asks a turn, what maps the function calls of its events back to the client's tools, and what is
    lost; nothing is sent. Raises as `ready` does."""
    losses: list[Loss] = []
    prepared, event_stage = prepare_turn(turn, route, dialect, losses)
    profile = route.profile
    if profile.cite_documents and dialect == "chat":
        profile = replace(profile, cite_documents=False)  # chat can say which address it cites, not which file
    exchange = route.provider.prepare(prepared, profile)
    losses += exchange.losses
    return exchange, event_stage, losses


def exchange_factory(route: Route) -> Callable[[Turn], Exchange]:
    """How turns of the Responses API are asked of a route: to exchanges whose events are in the client's terms."""

    def say(turn: Turn) -> Exchange:
        exchange, calls, _ = prepare_exchange(turn, route, "responses")
        return exchange if calls is None else MappedExchange(exchange, calls)

    return say


class MappedExchange:
    """An exchange with its calls in the client's terms."""

    def __init__(self, exchange: Exchange, event_stage: EventStage) -> None:
        self.losses: Final = exchange.losses
        self._exchange = exchange
        self._event_stage = event_stage

    async def batches(self) -> AsyncGenerator[Batch, None]:
        async with aclosing(self._exchange.batches()) as batches:
            async for batch in batches:
                yield self._event_stage.feed(batch)
