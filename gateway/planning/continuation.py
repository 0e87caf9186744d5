"""What a Responses request goes on from: its history, the items it refers to, and what it says itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway.errors import NotFound
from gateway.state.store import ACTIVE_STATUSES, History
from providers.new_id import new_id
from translation.errors import InvalidRequest
from translation.representation.json_types import Item, Json
from translation.responses.compaction import was_just_compacted
from translation.responses.storable_items import to_storable_items


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """`history` then `own` is the whole input. `usage` is that of the response it continues, where it has one."""

    history: Sequence[Item]
    new_items: Sequence[Item]
    parent_id: str | None = None
    conversation_id: str | None = None
    usage: Json | None = None
    has_references: bool = False
    """Whether the request's own input refers to items of earlier ones."""

    @property
    def context(self) -> list[Item]:
        """Everything the model is to read."""
        return [*self.history, *self.new_items]

    @property
    def history_tokens(self) -> int | None:
        """How many tokens the history is, as the last turn's usage says; None where that counted more, or nothing."""
        total = (self.usage or {}).get("total_tokens")
        return None if not isinstance(total, int) or was_just_compacted(self.history) else total

    @property
    def history_count(self) -> int | None:
        """How many items of history the input begins with; None when it is the client's own as it was sent."""
        return len(self.history) if self.history or self.has_references else None


class HistoryStore(Protocol):
    """What of a store a request can go on from."""

    async def load_history(self, owner: str, response_id: str) -> History | None: ...
    async def load_conversation_history(self, owner: str, conversation_id: str) -> Sequence[Item] | None: ...
    async def load_items(self, owner: str, item_ids: Sequence[str]) -> Mapping[str, Item]: ...


class EmptyHistoryStore:
    """Where there is no store: nothing is found."""

    async def load_history(self, owner: str, response_id: str) -> History | None:
        return None

    async def load_conversation_history(self, owner: str, conversation_id: str) -> Sequence[Item] | None:
        return None

    async def load_items(self, owner: str, item_ids: Sequence[str]) -> Mapping[str, Item]:
        return {}


async def resolve_continuation(
    store: HistoryStore, owner: str, body: Json, connection_items: Mapping[str, Sequence[Item]] | None = None
) -> Continuation:
    """Resolve `previous_response_id`, `conversation` and references to items of a validated body.

    `local`: response id -> everything up to it, for responses that are in no store but on this connection. Raises
    InvalidRequest and NotFound, the same for what is unknown, deleted, or another owner's.
    """
    previous, conversation = body.get("previous_response_id"), _conversation_id(body)
    if previous is not None and conversation is not None:
        raise InvalidRequest(
            "Mutually exclusive parameters: 'previous_response_id' and 'conversation'. Send one of them.",
            param="previous_response_id",
            code="mutually_exclusive_parameters",
        )
    input_value = body.get("input")
    refers = isinstance(input_value, list) and any(map(_is_reference, input_value))
    if isinstance(input_value, list) and refers:
        input_value = await _resolve_references(store, owner, input_value, connection_items)
    new_items = to_storable_items(input_value, new_id)
    if conversation is not None:
        items = await store.load_conversation_history(owner, conversation)
        if items is None:
            raise NotFound(f"Conversation with id '{conversation:.80}' not found.", param="conversation")
        return Continuation(
            history=_drop_unfinished_calls(items),
            new_items=new_items,
            has_references=refers,
            conversation_id=conversation,
        )
    if previous is None:
        return Continuation(history=(), new_items=new_items, has_references=refers)
    if connection_items is not None and previous in connection_items:
        return Continuation(
            history=_drop_unfinished_calls(connection_items[previous]), new_items=new_items, has_references=refers
        )
    stored = await store.load_history(owner, previous)
    if stored is None:
        raise previous_not_found(previous)
    if stored.status in ACTIVE_STATUSES:
        raise InvalidRequest(
            f"Previous response with id '{previous:.80}' is still {stored.status}: wait for its end, or cancel it.",
            param="previous_response_id",
            code="previous_response_not_finished",
        )
    if stored.conversation_id is not None:
        raise InvalidRequest(
            f"Previous response with id '{previous:.80}' was made in a conversation, and what that held before is not "
            f"its own history: go on with 'conversation': '{stored.conversation_id:.80}'.",
            param="previous_response_id",
            code="previous_response_in_conversation",
        )
    return Continuation(
        history=_drop_unfinished_calls(stored.items),
        new_items=new_items,
        has_references=refers,
        parent_id=previous,
        usage=stored.usage,
    )


def previous_not_found(response_id: str) -> InvalidRequest:
    """The answer for a response that cannot be continued."""
    return InvalidRequest(
        f"Previous response with id '{response_id:.80}' not found.",
        param="previous_response_id",
        code="previous_response_not_found",
    )


def _conversation_id(body: Json) -> str | None:
    given = body.get("conversation")
    return given["id"] if isinstance(given, dict) else given


async def _resolve_references(
    store: HistoryStore, owner: str, input_items: Sequence[Json], connection_items: Mapping[str, Sequence[Item]] | None
) -> Sequence[Json]:
    wanted = {item["id"]: place for place, item in enumerate(input_items) if _is_reference(item)}
    local_items = {item.get("id"): item for items in (connection_items or {}).values() for item in items}
    resolved = {item_id: local_items[item_id] for item_id in wanted if item_id in local_items}
    if missing := [item_id for item_id in wanted if item_id not in resolved]:
        resolved |= await store.load_items(owner, missing)
    for item_id, place in wanted.items():
        if item_id not in resolved:
            raise NotFound(
                f"Item with id '{item_id:.80}' not found. Items are kept only with responses whose `store` is true.",
                param=f"input[{place}].id",
            )
    return [resolved[item["id"]] if _is_reference(item) else item for item in input_items]


def _is_reference(item: Json) -> bool:
    return item.get("type") == "item_reference" or ("type" not in item and "role" not in item)


def _drop_unfinished_calls(items: Sequence[Item]) -> list[Item]:
    """Without calls that broke off: they were never made, so they have no output, and no model accepts that."""
    return [item for item in items if not (item.get("status") == "incomplete" and "call_id" in item)]
