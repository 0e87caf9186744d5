"""What is asked about a context instead of having it answered: its compaction, and how many tokens it is."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gateway.http.auth import Principal
from gateway.logs import note
from gateway.planning.compaction import compactable, summarise, summary_turn
from gateway.planning.continuation import continuation
from gateway.planning.plan import check_strict, may_relay
from gateway.planning.prepare_turn import lifted, said, saying
from gateway.planning.request_defaults import with_defaults
from gateway.planning.resolver import Resolver, Route
from gateway.planning.token_counting import count_tokens
from gateway.replies.client_params import ClientParams
from gateway.replies.endpoints import RESPONSES
from gateway.sealing.sealer import Sealer
from gateway.state.store import Store
from providers.new_id import new_id
from translation.errors import InvalidRequest, Unrepresentable
from translation.hygiene.item_groups import is_users
from translation.representation.events import Usage
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.turn import Turn
from translation.responses import usage as usage_object
from translation.responses.compaction import Sealed, compaction_item
from translation.responses.storable_items import own_items

_MAX_LOGGED_CHARS = 200

_STATE = ("previous_response_id", "conversation")

_NO_COMPACTION = ("stream", "background", "conversation")
"""Parameters of a response that a compaction cannot be asked with: what they ask for is not what it would give."""


class Compacted(NamedTuple):
    """The object the client gets, and what its request lost."""

    answer: Json
    losses: Sequence[Loss]


class Contexts:
    """One per server process. `store` None: nothing is kept, and state is refused by name."""

    def __init__(self, resolver: Resolver, store: Store | None, sealer: Sealer) -> None:
        self._resolver = resolver
        self._sealer = sealer
        self._store = store
        self._clock: Callable[[], int] = lambda: int(time.time())

    async def compact(self, principal: Principal, body: Json, *, strict: bool) -> Compacted:
        """The input window that stands for a body's whole context; nothing is stored.

        Raises InvalidRequest, UnknownModel, StoreUnavailable, CompactionFailed, TurnFailed, ProviderError.
        """
        for name in _NO_COMPACTION:
            if body.get(name):
                raise InvalidRequest(
                    f"Unknown parameter: '{name}': a compaction is one answer to one input.",
                    param=name,
                    code="unknown_parameter",
                )
        turn, params, route, _ = await self._read(principal, body)
        say = saying(route)
        try:
            lead, older, rest = compactable(turn)
            _, _, lost = said(summary_turn(turn, older), route, "responses")
            losses = [*turn.lost, *lost]
        except InvalidRequest as refused:
            params.rename(refused)
            raise
        check_strict(losses, strict=strict or route.strict)
        summary = await summarise(turn, older, say)
        users = own_items([item for item in turn.items if is_users(item)], new_id)
        item = compaction_item(new_id("cmp"), Sealed(summary.text, lead, rest, after_users=True))
        answer = {
            "id": new_id("resp"),
            "object": "response.compaction",
            "created_at": self._clock(),
            "output": [*users, item],
            # The API has no compaction without usage.
            "usage": usage_object.write(summary.usage) or usage_object.write(Usage(0, 0)),
        }
        return Compacted(answer, losses)

    async def count(self, principal: Principal, body: Json) -> Json:
        """The object that says how many input tokens a body's response would have.

        Raises InvalidRequest, UnknownModel, StoreUnavailable, ProviderError; Unrepresentable where nobody knows.
        """
        if body.get("personality") is not None:
            raise Unrepresentable("no upstream here knows personalities: leave it out", param="personality")
        turn, params, route, relayed = await self._read(principal, body)
        try:
            counted = await count_tokens(turn, route, relayed=relayed)
        except InvalidRequest as refused:
            params.rename(refused)
            raise
        return {"object": "response.input_tokens", "input_tokens": counted}

    async def _read(self, principal: Principal, body: Json) -> tuple[Turn, ClientParams, Route, bool]:
        """The turn a body asks with everything said before it, whom it asks, and whether its body would be relayed."""
        RESPONSES.validate(body)
        if not body.get("model"):
            raise InvalidRequest("model is required", param="model", code="missing_required_parameter")
        route = self._resolver.resolve(body["model"], principal.models, (self._sealer, principal.name))
        note(model=route.name[:_MAX_LOGGED_CHARS], provider=route.provider.name)
        if route.request_defaults:
            body = with_defaults(body, route.request_defaults, "responses")
            RESPONSES.validate(body)
        earlier = None
        if self._store is not None:
            state = await continuation(self._store, principal.name, body)
            earlier = state.earlier
            body = {name: value for name, value in body.items() if name not in _STATE}
            if earlier is not None:
                body["input"] = state.context
        if route.carrier is not None:
            route.carrier.check(body.get("input"), earlier or 0)
        relayed = may_relay(RESPONSES, body, route)
        turn, params = lifted(RESPONSES, body, route, earlier or 0, native=relayed)
        return turn, params, route, relayed
