"""Serves requests about a context that produce no response: compaction, and counting its input tokens."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gateway.errors import NotFound
from gateway.http.auth import Principal
from gateway.http.large_bodies import LargeBodyThreads
from gateway.planning.compaction import build_summary_turn, request_summary, require_compactable
from gateway.planning.continuation import resolve_continuation
from gateway.planning.hosted_tools import find_first_turn
from gateway.planning.plan import find_tool_host, may_relay, require_no_loss
from gateway.planning.prepare_turn import lift_body, make_exchange_factory, prepare_exchange
from gateway.planning.resolver import Route
from gateway.planning.token_counting import count_tokens
from gateway.replies.client_params import ClientParams
from gateway.replies.endpoints import Endpoint
from gateway.sealing.sealer import is_sealed
from gateway.service.admission import Admission
from gateway.service.provider_lifetimes import ProviderHold
from gateway.state.store import Store
from gateway.tools.approvals import ApprovalFactory, ResponseApprovals
from gateway.tools.exchange_factory import load_tool_library
from gateway.tools.host import ToolHost
from providers.base import RelayCounter
from providers.new_id import new_id
from translation.errors import InvalidRequest, Unrepresentable
from translation.hygiene.item_groups import is_user_message
from translation.messages.relaying.request import remove_sealed_blocks
from translation.representation.events import Usage
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.turn import Turn
from translation.responses import usage as usage_object
from translation.responses.client.storable_items import to_storable_items
from translation.responses.compaction import CompactionContent, build_compaction_item

_STATE_PARAMS = ("previous_response_id", "conversation")

_REFUSED_PARAMS = ("stream", "background", "conversation")
"""Parameters of `/v1/responses` that `/v1/responses/compact` refuses: it is never streamed, in the background, or part
of a conversation."""


class CompactionReply(NamedTuple):
    """The JSON object for the client, and the losses of its request."""

    body: Json
    losses: Sequence[Loss]


class TokenCount(NamedTuple):
    """The number of input tokens, and the losses of counting: servers whose tools could not be counted, and blocks of
    another model."""

    tokens: int
    losses: Sequence[Loss]


class _PreparedTurn(NamedTuple):
    """A turn with its history, and the client's parameter names. `relayed`: the body would be relayed.

    `tool_host` runs the tools of the turn; None if there are none to run. `approvals` are the approvals of their calls.
    """

    turn: Turn
    params: ClientParams
    route: Route
    relayed: bool
    tool_host: ToolHost | None = None
    approvals: ResponseApprovals | None = None


class ContextService:
    """Compacts contexts and counts their tokens. There is one per server process.

    If `store` is None, parameters about stored state are refused by name. `tool_host` lists the tools that a response
    would have; `approvals` is None if none can be stored.
    """

    def __init__(
        self,
        admission: Admission,
        threads: LargeBodyThreads,
        store: Store | None,
        provider_hold: ProviderHold | None = None,
        tool_host: ToolHost | None = None,
        approvals: ApprovalFactory | None = None,
    ) -> None:
        self._admission = admission
        self._threads = threads
        self._store = store
        self._provider_hold = provider_hold
        self._tool_host = tool_host
        self._approvals = approvals
        self._clock: Callable[[], int] = lambda: int(time.time())

    async def compact_context(
        self, endpoint: Endpoint, principal: Principal, body: Json, *, weight: int, strict: bool
    ) -> CompactionReply:
        """Returns the compacted input that replaces a request's whole context. Nothing is stored.

        `endpoint` is that of the Responses API. `weight` is the weight of the body (`weigh_body`). Raises
        InvalidRequest, UnknownModel, StoreUnavailable, CompactionFailed, TurnFailed and ProviderError.
        """
        for name in _REFUSED_PARAMS:
            if body.get(name):
                raise InvalidRequest(
                    f"Unknown parameter: '{name}'. Leave it out: a compaction is one JSON reply to one input.",
                    param=name,
                    code="unknown_parameter",
                )
        turn, params, route, *_ = await self._prepare_turn(endpoint, principal, body, weight)
        make_exchange = make_exchange_factory(route)
        try:
            lead, older, rest = require_compactable(turn)
            _, _, summary_losses = prepare_exchange(build_summary_turn(turn, older), route, "responses")
            losses = [*turn.losses, *summary_losses]
        except InvalidRequest as error:
            params.rename_param_of(error)
            raise
        require_no_loss(losses, strict=strict or route.strict)
        summary = await request_summary(turn, older, make_exchange)
        user_messages = to_storable_items([item for item in turn.items if is_user_message(item)], new_id)
        item = build_compaction_item(new_id("cmp"), CompactionContent(summary.text, lead, rest, after_users=True))
        compaction = {
            "id": new_id("resp"),
            "object": "response.compaction",
            "created_at": self._clock(),
            "output": [*user_messages, item],
            # `usage` is required in the API, so an upstream that reports none yields zeros.
            "usage": usage_object.write_usage(summary.usage) or usage_object.write_usage(Usage(0, 0)),
        }
        return CompactionReply(compaction, losses)

    async def count_input_tokens(
        self, endpoint: Endpoint, principal: Principal, body: Json, *, weight: int
    ) -> TokenCount:
        """Returns the number of input tokens that a response to this body would use.

        `endpoint` is that of the Responses API. With tools that the gateway runs, the first request to the model is
        counted, with the tools that their servers list now. `weight` is the weight of the body (`weigh_body`). Raises
        InvalidRequest, UnknownModel, StoreUnavailable, ToolListFailed and ProviderError; Unrepresentable if the
        upstream cannot count them.
        """
        if body.get("personality") is not None:
            raise Unrepresentable("no upstream supports personality: leave it out", param="personality")
        prepared = await self._prepare_turn(endpoint, principal, body, weight, counts=True)
        try:
            token_count, losses = await _count_prepared(prepared, body, endpoint)
        except InvalidRequest as error:
            prepared.params.rename_param_of(error)
            raise
        return TokenCount(token_count, losses)

    async def count_tokens(self, endpoint: Endpoint, principal: Principal, body: Json, *, weight: int) -> TokenCount:
        """Returns the number of input tokens that a reply to this body would use, for an endpoint that only counts.

        If the request would be relayed, the upstream counts the body itself. Raises what `count_input_tokens` raises,
        and NotFound if the upstream cannot count them: clients then make an estimate of their own.
        """
        admitted = await self._threads.run(weight, self._admission.admit, endpoint, principal, body)
        route = admitted.route
        if route.must_be_listed:
            await self._admission.require_listed(route, principal)
        if route.capabilities.counting == "none":
            raise NotFound("the model's upstream cannot count tokens", param="model")
        tool_host = await self._find_tool_host(endpoint, admitted.body, route, principal)
        if tool_host is None and may_relay(endpoint, admitted.body, route) and route.capabilities.counting == "own":
            # The endpoint for counting accepts no other parameters than the client's own.
            relayed, losses = await self._threads.run(weight, _build_relayed_count, endpoint, body, route)
            counter = route.provider
            assert isinstance(counter, RelayCounter)  # an upstream with the client's dialect is reached by HTTP
            return TokenCount(await counter.count_relayed_tokens(endpoint.dialect, relayed), losses)
        turn, params = await self._threads.run(weight, lift_body, endpoint, admitted.body, route, 0)
        prepared = _PreparedTurn(turn, params, route, relayed=False, tool_host=tool_host)
        try:
            return TokenCount(*await _count_prepared(prepared, admitted.body, endpoint))
        except InvalidRequest as error:
            params.rename_param_of(error)
            raise

    async def _find_tool_host(
        self, endpoint: Endpoint, body: Json, route: Route, principal: Principal
    ) -> ToolHost | None:
        """Returns the host of the body's tools that its upstream does not run; None if there are none."""
        if self._tool_host is None or not (route.mcp_servers or body.get("tools") or body.get("mcp_servers")):
            return None
        tool_host = find_tool_host(endpoint, body, route, self._tool_host, principal.mcp_servers)
        if tool_host is not None:
            await load_tool_library()
        return tool_host

    async def _prepare_turn(
        self, endpoint: Endpoint, principal: Principal, body: Json, weight: int, *, counts: bool = False
    ) -> _PreparedTurn:
        """Returns the body's turn with its history. For a large body this happens in a thread.

        With `counts`, the turn includes the tools that the gateway would run.
        """
        admitted = await self._threads.run(weight, self._admission.admit, endpoint, principal, body)
        body, route = admitted.body, admitted.route
        if route.must_be_listed:
            await self._admission.require_listed(route, principal)
        tool_host = await self._find_tool_host(endpoint, body, route, principal) if counts else None
        history_count, approvals = None, None
        if self._store is not None:
            state = await resolve_continuation(self._store.history, principal.name, body)
            history_count = state.history_count
            if tool_host is not None and self._approvals is not None:
                labels = [
                    *tool_host.list_labels(body.get("tools") or ()),
                    *tool_host.list_usable_labels(route.mcp_servers),
                ]
                approvals = await self._approvals.load(
                    principal.name, new_id("resp"), state.context, state.new_items, labels
                )
            body = {name: value for name, value in body.items() if name not in _STATE_PARAMS}
            if history_count is not None:
                body["input"] = state.context
        prepared = await self._threads.run(
            weight, _lift_with_history, endpoint, body, route, history_count or 0, tool_host
        )
        return prepared._replace(tool_host=tool_host, approvals=approvals)


def _build_relayed_count(endpoint: Endpoint, body: Json, route: Route) -> tuple[Json, Sequence[Loss]]:
    """Returns the body for the upstream's endpoint for counting, and its losses. Raises InvalidRequest for a thread."""
    endpoint.lift(body, relayed=True)
    losses: list[Loss] = []
    messages = remove_sealed_blocks(body["messages"], is_sealed, losses)
    lowered = endpoint.relay_body({**body, "messages": messages}, route.profile, model=route.upstream_model)
    return lowered.body, [*losses, *lowered.losses]


async def _count_prepared(prepared: _PreparedTurn, body: Json, endpoint: Endpoint) -> tuple[int, Sequence[Loss]]:
    """Returns the number of tokens, and the losses: tools that a reply might have, and that could not be counted."""
    turn, route, tool_host = prepared.turn, prepared.route, prepared.tool_host
    losses: Sequence[Loss] = ()
    # An upstream that cannot count is reported without asking the servers.
    if tool_host is not None and route.capabilities.counting != "none":
        turn, losses = await find_first_turn(turn, body, route, tool_host, prepared.approvals, endpoint.dialect)
    return await count_tokens(turn, route, relayed=prepared.relayed, dialect=endpoint.dialect), losses


def _lift_with_history(
    endpoint: Endpoint, body: Json, route: Route, history_count: int, tool_host: ToolHost | None
) -> _PreparedTurn:
    if route.reasoning_seal is not None:
        route.reasoning_seal.check_input(body.get("input"), history_count)
    relayed = tool_host is None and may_relay(endpoint, body, route)
    turn, params = lift_body(endpoint, body, route, history_count, native_compaction=relayed)
    return _PreparedTurn(turn, params, route, relayed)
