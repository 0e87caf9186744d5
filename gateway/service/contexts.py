"""Serves requests about a context that produce no response: compaction, and counting its input tokens."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gateway.errors import NotFound
from gateway.http.auth import Principal
from gateway.http.large_bodies import LargeBodyThreads
from gateway.planning.compaction import build_summary_turn, request_summary, require_compactable
from gateway.planning.continuation import resolve_continuation
from gateway.planning.plan import may_relay, require_no_loss
from gateway.planning.prepare_turn import exchange_factory, lift_body, prepare_exchange
from gateway.planning.resolver import Route
from gateway.planning.token_counting import count_tokens
from gateway.replies.client_params import ClientParams
from gateway.replies.endpoints import RESPONSES
from gateway.replies.messages_endpoint import COUNTING
from gateway.service.admission import Admission
from gateway.service.provider_lifetimes import ProviderHold
from gateway.state.store import Store
from providers.new_id import new_id
from translation.errors import InvalidRequest, Unrepresentable
from translation.hygiene.item_groups import is_user_message
from translation.representation.events import Usage
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.turn import Turn
from translation.responses import usage as usage_object
from translation.responses.compaction import CompactionContent, compaction_item
from translation.responses.storable_items import to_storable_items

_STATE_PARAMS = ("previous_response_id", "conversation")

_REJECTED_PARAMS = ("stream", "background", "conversation")
"""Parameters of `/v1/responses` that `/v1/responses/compact` refuses: it is never streamed, in the background, or part
of a conversation."""


class CompactionReply(NamedTuple):
    """The JSON object for the client, and the losses of its request."""

    body: Json
    losses: Sequence[Loss]


class ContextService:
    """Compacts contexts and counts their tokens. There is one per server process.

    If `store` is None, parameters about stored state are refused by name.
    """

    def __init__(
        self,
        admission: Admission,
        threads: LargeBodyThreads,
        store: Store | None,
        provider_hold: ProviderHold | None = None,
    ) -> None:
        self._admission = admission
        self._threads = threads
        self._store = store
        self._provider_hold = provider_hold
        self._clock: Callable[[], int] = lambda: int(time.time())

    async def compact_context(self, principal: Principal, body: Json, *, weight: int, strict: bool) -> CompactionReply:
        """Returns the compacted input that replaces a request's whole context. Nothing is stored.

        `weight` is that of the body (`weigh_body`). Raises InvalidRequest, UnknownModel, StoreUnavailable,
        CompactionFailed, TurnFailed and ProviderError.
        """
        for name in _REJECTED_PARAMS:
            if body.get(name):
                raise InvalidRequest(
                    f"Unknown parameter: '{name}'. Leave it out: a compaction is one JSON reply to one input.",
                    param=name,
                    code="unknown_parameter",
                )
        turn, params, route, _ = await self._prepare_turn(principal, body, weight)
        make_exchange = exchange_factory(route)
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
        item = compaction_item(new_id("cmp"), CompactionContent(summary.text, lead, rest, after_users=True))
        compaction = {
            "id": new_id("resp"),
            "object": "response.compaction",
            "created_at": self._clock(),
            "output": [*user_messages, item],
            # `usage` is required in the API, so an upstream that reports none yields zeros.
            "usage": usage_object.write_usage(summary.usage) or usage_object.write_usage(Usage(0, 0)),
        }
        return CompactionReply(compaction, losses)

    async def count_input_tokens(self, principal: Principal, body: Json, *, weight: int) -> Json:
        """Returns the object with the number of input tokens that a response to this body would use.

        `weight` is that of the body (`weigh_body`). Raises InvalidRequest, UnknownModel, StoreUnavailable and
        ProviderError; Unrepresentable if the upstream cannot count them.
        """
        if body.get("personality") is not None:
            raise Unrepresentable("no upstream supports personality: leave it out", param="personality")
        turn, params, route, relayed = await self._prepare_turn(principal, body, weight)
        try:
            token_count = await count_tokens(turn, route, relayed=relayed)
        except InvalidRequest as error:
            params.rename_param_of(error)
            raise
        return {"object": "response.input_tokens", "input_tokens": token_count}

    async def count_message_tokens(self, principal: Principal, body: Json, *, weight: int) -> Json:
        """Returns the object with the number of input tokens that a message to this body would use.

        Raises what `count_input_tokens` raises, and NotFound if the upstream cannot count them: clients of the Messages
        API then make an estimate of their own.
        """
        admitted = await self._threads.run(weight, self._admission.admit, COUNTING, principal, body)
        route = admitted.route
        if route.must_be_listed:
            await self._admission.require_listed(route, principal)
        if route.capabilities.counting == "none":
            raise NotFound("the model's upstream cannot count tokens", param="model")
        turn, params = await self._threads.run(weight, lift_body, COUNTING, admitted.body, route, 0)
        try:
            return {"input_tokens": await count_tokens(turn, route, dialect="messages")}
        except InvalidRequest as error:
            params.rename_param_of(error)
            raise

    async def _prepare_turn(
        self, principal: Principal, body: Json, weight: int
    ) -> tuple[Turn, ClientParams, Route, bool]:
        """Returns the body's turn with its history, the client's parameter names, the route, and whether the body would
        be relayed. For a large body this happens in a thread."""
        admitted = await self._threads.run(weight, self._admission.admit, RESPONSES, principal, body)
        body, route = admitted.body, admitted.route
        if route.must_be_listed:
            await self._admission.require_listed(route, principal)
        history_count = None
        if self._store is not None:
            state = await resolve_continuation(self._store, principal.name, body)
            history_count = state.history_count
            body = {name: value for name, value in body.items() if name not in _STATE_PARAMS}
            if history_count is not None:
                body["input"] = state.context
        return await self._threads.run(weight, _lift_with_history, body, route, history_count or 0)


def _lift_with_history(body: Json, route: Route, history_count: int) -> tuple[Turn, ClientParams, Route, bool]:
    if route.reasoning_seal is not None:
        route.reasoning_seal.check_input(body.get("input"), history_count)
    relayed = may_relay(RESPONSES, body, route)
    turn, params = lift_body(RESPONSES, body, route, history_count, native_compaction=relayed)
    return turn, params, route, relayed
