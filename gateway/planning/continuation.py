"""Resolves the input of a Responses request: its history, the items that it references, and its own input items."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from dataplane.sharing.work_pool import run_for_count
from gateway.errors import NotFound
from gateway.state.store import HistoryReader
from gateway.state.values import ACTIVE_STATUSES, History, HistoryTooLong, WeighedItems
from providers.new_id import new_id
from translation.errors import InvalidRequest
from translation.representation.json_types import Item, Json
from translation.request_facts import RequestFacts
from translation.responses.client.history_check import check_history
from translation.responses.client.storable_items import to_storable_items
from translation.responses.compaction import was_just_compacted
from translation.responses.input_items import is_reference

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """The resolved input of a request: `history` followed by `new_items`.

    `usage` is the usage of the response that it continues; otherwise None.
    """

    history: Sequence[Item]
    new_items: Sequence[Item]
    parent_id: str | None = None
    conversation_id: str | None = None
    usage: Json | None = None
    has_references: bool = False
    """Whether the request's own input references stored items by id."""
    weight: int = 0
    """The weight of the stored items (`dataplane/body_weight.py`). The request's own input is not counted."""

    @property
    def context(self) -> list[Item]:
        """Returns the whole input for the model: history, then the request's own items."""
        return [*self.history, *self.new_items]

    @property
    def history_tokens(self) -> int | None:
        """Returns the number of tokens of the history, as the usage of the continued response reports it.

        None if no usage is known, or if that response began with a compaction: its usage also counts the items that the
        compaction replaced.
        """
        total = (self.usage or {}).get("total_tokens")
        return None if not isinstance(total, int) or was_just_compacted(self.history) else total

    @property
    def history_count(self) -> int | None:
        """Returns the number of history items at the start of the input; None if the input is the client's own."""
        return len(self.history) if self.history or self.has_references else None


def check_stored_items(facts: RequestFacts, history_count: int | None) -> None:
    """Explains why a request could not be planned, if the history at the start of its input is the reason.

    Call it while the error is handled. Raises InvalidRequest for the first stored item that is not in the form of its
    type; then the error is in the log.
    """
    if not history_count or not isinstance(facts.input_value, list):
        return
    param = "previous_response_id" if facts.state.conversation_id is None else "conversation"
    try:
        check_history(facts.input_value[:history_count], param)
    except InvalidRequest:
        _log.warning("stored_item_unreadable", exc_info=True)
        raise


class EmptyHistory:
    """The history reader of a server without a store. It finds nothing."""

    async def load_history(self, owner: str, response_id: str) -> History | None:
        return None

    async def load_conversation_history(self, owner: str, conversation_id: str) -> WeighedItems | None:
        return None

    async def load_items(self, owner: str, item_ids: Sequence[str]) -> Mapping[str, Item]:
        return {}


def continues_stored_state(facts: RequestFacts, connection_items: Mapping[str, Sequence[Item]] | None = None) -> bool:
    """Returns whether a request refers to what is stored. `connection_items` are as in `resolve_continuation`."""
    state, input_value = facts.state, facts.input_value
    if state.conversation_id is not None or state.thread is not None:
        return True
    if state.previous_id is not None and state.previous_id not in (connection_items or {}):
        return True
    return isinstance(input_value, list) and any(map(is_reference, input_value))


async def resolve_continuation(
    history: HistoryReader,
    owner: str,
    facts: RequestFacts,
    connection_items: Mapping[str, Sequence[Item]] | None = None,
) -> Continuation:
    """Resolves `previous_response_id`, `conversation` and item references of a request.

    `connection_items` maps response ids to all items up to and including that response, for responses that exist only
    on this connection. Raises InvalidRequest and NotFound. Their messages are the same for unknown, deleted and other
    owners' objects. Raises StoreUnavailable.
    """
    previous, conversation = facts.state.previous_id, facts.state.conversation_id
    if previous is not None and conversation is not None:
        raise InvalidRequest(
            "Mutually exclusive parameters: 'previous_response_id' and 'conversation'. Send one of them.",
            param="previous_response_id",
            code="mutually_exclusive_parameters",
        )
    input_value = facts.input_value
    has_references = isinstance(input_value, list) and any(map(is_reference, input_value))
    if isinstance(input_value, list) and has_references:
        with refuse_long_history("input"):
            input_value = await _resolve_references(history, owner, input_value, connection_items)
    new_items = await _build_new_items(input_value)
    if conversation is not None:
        with refuse_long_history("conversation"):
            items = await history.load_conversation_history(owner, conversation)
        if items is None:
            raise NotFound(f"Conversation with id '{conversation:.80}' not found.", param="conversation")
        return Continuation(
            history=await _build_history(items, facts),
            new_items=new_items,
            has_references=has_references,
            conversation_id=conversation,
            weight=items.weight,
        )
    if previous is None:
        return Continuation(history=(), new_items=new_items, has_references=has_references)
    if connection_items is not None and previous in connection_items:
        # It was not stored, so nothing can refer to it as a parent: its items become part of what the new one stores.
        return Continuation(
            history=await _build_history(connection_items[previous], facts),
            new_items=new_items,
            has_references=has_references,
        )
    with refuse_long_history("previous_response_id"):
        stored = await history.load_history(owner, previous)
    if stored is None:
        raise build_previous_not_found_error(previous)
    if stored.status in ACTIVE_STATUSES:
        raise InvalidRequest(
            f"Previous response with id '{previous:.80}' is still {stored.status}: wait for its end, or cancel it.",
            param="previous_response_id",
            code="previous_response_not_finished",
        )
    if stored.conversation_id is not None:
        raise InvalidRequest(
            f"Previous response with id '{previous:.80}' belongs to a conversation, whose earlier items are not in its "
            f"own history: continue with 'conversation': '{stored.conversation_id:.80}'.",
            param="previous_response_id",
            code="previous_response_in_conversation",
        )
    return Continuation(
        history=await _build_history(stored.items, facts),
        new_items=new_items,
        has_references=has_references,
        parent_id=previous,
        usage=stored.usage,
        weight=stored.items.weight,
    )


async def continue_thread(history: Sequence[Item], facts: RequestFacts, conversation_id: str) -> Continuation:
    """Returns the continuation of a thread by a request whose input follows these items of its conversation."""
    return Continuation(
        history=await run_for_count(len(history), drop_unfinished_calls, history),
        new_items=await _build_new_items(facts.input_value),
        conversation_id=conversation_id,
    )


async def _build_new_items(input_value: str | Sequence[Json] | None) -> list[Item]:
    """Returns the items of an input in full form, with ids. Many are built in a thread."""
    count = len(input_value) if isinstance(input_value, list) else 1
    return await run_for_count(count, to_storable_items, input_value, new_id)


def build_previous_not_found_error(response_id: str) -> InvalidRequest:
    """Returns the error for a `previous_response_id` that is unknown, deleted, or another owner's."""
    return InvalidRequest(
        f"Previous response with id '{response_id:.80}' not found.",
        param="previous_response_id",
        code="previous_response_not_found",
    )


async def _resolve_references(
    history: HistoryReader,
    owner: str,
    input_items: Sequence[Json],
    connection_items: Mapping[str, Sequence[Item]] | None,
) -> Sequence[Json]:
    positions = {item["id"]: index for index, item in enumerate(input_items) if is_reference(item)}
    local_items = {item.get("id"): item for items in (connection_items or {}).values() for item in items}
    resolved = {item_id: local_items[item_id] for item_id in positions if item_id in local_items}
    if missing := [item_id for item_id in positions if item_id not in resolved]:
        resolved |= await history.load_items(owner, missing)
    for item_id, index in positions.items():
        if item_id not in resolved:
            raise NotFound(
                f"Item with id '{item_id:.80}' not found. Items are stored only with responses whose `store` is true.",
                param=f"input[{index}].id",
            )
    return [resolved[item["id"]] if is_reference(item) else item for item in input_items]


@contextmanager
def refuse_long_history(param: str) -> Iterator[None]:
    """Raises InvalidRequest for the parameter that names a history, if the block raises that it is too long."""
    try:
        yield
    except HistoryTooLong as error:
        raise InvalidRequest(
            f"The context that '{param}' names is too long to be continued: {error}. Compact it, or begin a new one.",
            param=param,
            code="history_too_long",
        ) from None


async def _build_history(items: Sequence[Item], facts: RequestFacts) -> list[Item]:
    """Returns what `_check_history` returns. For many items this happens in a thread."""
    return await run_for_count(len(items), _check_history, items, facts)


def _check_history(items: Sequence[Item], facts: RequestFacts) -> list[Item]:
    """Returns the stored items that precede the input of a request. Raises InvalidRequest for an input that repeats one
    of them, because the model would read it twice. The message is that of OpenAI's API."""
    history = drop_unfinished_calls(items)
    input_value = facts.input_value
    sent_ids = [item.get("id") for item in input_value] if isinstance(input_value, list) else []
    if any(sent_ids):
        known_ids = {item.get("id") for item in history} - {None, ""}
        duplicate = next((each for each in sent_ids if isinstance(each, str) and each in known_ids), None)
        if duplicate is not None:
            raise InvalidRequest(
                f"Duplicate item found with id {duplicate:.128}. Remove duplicate items from your input and try again.",
                param="input",
            )
    return history


def drop_unfinished_calls(items: Sequence[Item]) -> list[Item]:
    """Removes incomplete tool calls. They were never run and have no output, and no model accepts such a call.

    An incomplete output of a tool stays: it is what a client sends for a call that failed.
    """
    return [item for item in items if not (item.get("status") == "incomplete" and _is_call(item))]


def _is_call(item: Item) -> bool:
    return "call_id" in item and not item["type"].endswith("_output")
