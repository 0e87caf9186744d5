"""What is asked about a context instead of having it answered: its compaction, and how many tokens it is."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gateway.http.auth import Principal
from gateway.logs import bind_fields
from gateway.planning.compaction import build_summary_turn, request_summary, require_compactable
from gateway.planning.continuation import resolve_continuation
from gateway.planning.plan import may_relay, require_no_loss
from gateway.planning.prepare_turn import exchange_factory, lift_body, prepare_exchange
from gateway.planning.request_defaults import with_defaults
from gateway.planning.resolver import Resolver, Route
from gateway.planning.token_counting import count_tokens
from gateway.replies.client_params import ClientParams
from gateway.replies.endpoints import RESPONSES
from gateway.sealing.sealer import Sealer
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

_MAX_LOGGED_CHARS = 200

_STATE_PARAMS = ("previous_response_id", "conversation")

_REJECTED_PARAMS = ("stream", "background", "conversation")
"""Parameters of a response that a compaction cannot be asked with: what they ask for is not what it would give."""


class CompactionReply(NamedTuple):
    """The object the client gets, and what its request lost."""

    body: Json
    losses: Sequence[Loss]


class ContextService:
    """One per server process. `store` None: nothing is kept, and state is refused by name."""

    def __init__(self, resolver: Resolver, store: Store | None, sealer: Sealer) -> None:
        self._resolver = resolver
        self._sealer = sealer
        self._store = store
        self._clock: Callable[[], int] = lambda: int(time.time())

    async def compact_context(self, principal: Principal, body: Json, *, strict: bool) -> CompactionReply:
        """The input window that stands for a body's whole context; nothing is stored.

        Raises InvalidRequest, UnknownModel, StoreUnavailable, CompactionFailed, TurnFailed, ProviderError.
        """
        for name in _REJECTED_PARAMS:
            if body.get(name):
                raise InvalidRequest(
                    f"Unknown parameter: '{name}': a compaction is one answer to one input.",
                    param=name,
                    code="unknown_parameter",
                )
        turn, params, route, _ = await self._prepare_turn(principal, body)
        make_exchange = exchange_factory(route)
        try:
            lead, older, rest = require_compactable(turn)
            _, _, lost = prepare_exchange(build_summary_turn(turn, older), route, "responses")
            losses = [*turn.losses, *lost]
        except InvalidRequest as refused:
            params.rename_param_of(refused)
            raise
        require_no_loss(losses, strict=strict or route.strict)
        summary = await request_summary(turn, older, make_exchange)
        users = to_storable_items([item for item in turn.items if is_user_message(item)], new_id)
        item = compaction_item(new_id("cmp"), CompactionContent(summary.text, lead, rest, after_users=True))
        answer = {
            "id": new_id("resp"),
            "object": "response.compaction",
            "created_at": self._clock(),
            "output": [*users, item],
            # The API has no compaction without usage.
            "usage": usage_object.write_usage(summary.usage) or usage_object.write_usage(Usage(0, 0)),
        }
        return CompactionReply(answer, losses)

    async def count_input_tokens(self, principal: Principal, body: Json) -> Json:
        """The object that says how many input tokens a body's response would have.

        Raises InvalidRequest, UnknownModel, StoreUnavailable, ProviderError; Unrepresentable where nobody knows.
        """
        if body.get("personality") is not None:
            raise Unrepresentable("no upstream here knows personalities: leave it out", param="personality")
        turn, params, route, relayed = await self._prepare_turn(principal, body)
        try:
            counted = await count_tokens(turn, route, relayed=relayed)
        except InvalidRequest as refused:
            params.rename_param_of(refused)
            raise
        return {"object": "response.input_tokens", "input_tokens": counted}

    async def _prepare_turn(self, principal: Principal, body: Json) -> tuple[Turn, ClientParams, Route, bool]:
        """The turn a body asks with everything said before it, whom it asks, and whether its body would be relayed."""
        RESPONSES.validate(body)
        if not body.get("model"):
            raise InvalidRequest("model is required", param="model", code="missing_required_parameter")
        route = self._resolver.resolve(body["model"], principal.models, (self._sealer, principal.name))
        bind_fields(model=route.name[:_MAX_LOGGED_CHARS], provider=route.provider.name)
        if route.request_defaults:
            body = with_defaults(body, route.request_defaults, "responses")
            RESPONSES.validate(body)
        history_count = None
        if self._store is not None:
            state = await resolve_continuation(self._store, principal.name, body)
            history_count = state.history_count
            body = {name: value for name, value in body.items() if name not in _STATE_PARAMS}
            if history_count is not None:
                body["input"] = state.context
        if route.reasoning_seal is not None:
            route.reasoning_seal.check_input(body.get("input"), history_count or 0)
        relayed = may_relay(RESPONSES, body, route)
        turn, params = lift_body(RESPONSES, body, route, history_count or 0, native_compaction=relayed)
        return turn, params, route, relayed
