"""Compares the messages of a run with the stored items of its thread.

Most clients send all messages of a thread with each run. The stored items have more than the messages: reasoning, lists
of tools and approvals. So as far as both agree, the stored items are the history, and the following messages are the
new input. Where they differ, the messages count: their user may have edited or deleted some. But a run that answers an
interrupt of the thread continues all of the thread, and may leave messages out.
"""

from collections import Counter
from collections.abc import Container, Sequence
from typing import NamedTuple

from translation.agui.messages import NO_RESULT, MessageEntry, build_call_fact, build_message_fact, pair_outputs
from translation.agui.tool_items import is_call_output, is_hosted_call, view_call
from translation.errors import InvalidRequest
from translation.representation.items import CALL_TYPES
from translation.representation.json_types import Item


class JoinedHistory(NamedTuple):
    """The history of a run, and its new input.

    `history` is the beginning of the stored items. `entries` follow it. `dropped` are entries that mean nothing there.
    """

    history: Sequence[Item]
    entries: Sequence[MessageEntry]
    dropped: Sequence[MessageEntry]


def join_history(
    stored: Sequence[Item], entries: Sequence[MessageEntry], answered_ids: Container[str] = ()
) -> JoinedHistory:
    """Returns the stored items that the client's messages repeat, and the entries that they do not have.

    `answered_ids` are the interrupts that the run answers. Raises InvalidRequest for a message that contradicts the
    thread of such an interrupt.
    """
    if not entries:
        return JoinedHistory(stored, (), ())  # a client without messages has not deleted any
    joined = _join_repeated(stored, entries)
    answered_requests = [item for item in open_requests(stored) if item["id"] in answered_ids]
    if len(joined.history) == len(stored) or not answered_requests:
        return joined
    # Clients with a state of their own send the messages of the user, without the call that waits for its answer.
    return _continue_stored(stored, entries)


def _continue_stored(stored: Sequence[Item], entries: Sequence[MessageEntry]) -> JoinedHistory:
    """Returns the whole thread as the history, and the entries behind the last one that repeats an item of it."""
    facts = iter(fact for item in stored for fact in _facts_of(item))
    outputs = {item["call_id"]: item["output"] for item in stored if item["type"] == "function_call_output"}
    user_facts = [fact for item in stored for fact in _facts_of(item) if fact[:2] == ("message", "user")]
    missing = Counter(user_facts)
    first_new = len(entries)
    for position, entry in enumerate(entries):
        if entry.output_id in outputs and entry.item["output"] != outputs[entry.output_id]:
            raise _contradicts(entry)
        if entry.fact is None or first_new < len(entries):
            continue
        if not any(_agree(fact, entry.fact) for fact in facts):
            first_new = position
        elif entry.fact in missing:
            missing[entry.fact] -= 1
    if first_new < len(entries) and missing.total() > 0:
        raise _contradicts(entries[first_new])  # it stands where the thread has another message of the user
    new = [entry for position, entry in enumerate(entries) if position >= first_new or entry.output_id is not None]
    return _pair_with_history(stored, new)


def _contradicts(entry: MessageEntry) -> InvalidRequest:
    return InvalidRequest(
        "this message is not in the thread whose interrupt the run answers: send the messages of the thread as they "
        "are, or leave them out; to continue from other messages, leave resume out",
        param=f"messages[{entry.position}]",
    )


def _join_repeated(stored: Sequence[Item], entries: Sequence[MessageEntry]) -> JoinedHistory:
    facts = [(index, fact) for index, item in enumerate(stored) for fact in _facts_of(item)]
    compared = [position for position, entry in enumerate(entries) if entry.fact is not None]
    changed = _changed_outputs(stored, entries) | _awaited_calls(stored)
    matched = 0
    for (_, fact), position in zip(facts, compared, strict=False):
        if not _agree(fact, entries[position].fact) or (fact[0] == "call" and fact[1] in changed):
            break
        matched += 1
    history = stored if matched == len(facts) else stored[: facts[matched][0]]
    # Entries that are not compared belong to the entries behind them, except the outputs of calls.
    first_new = compared[matched - 1] + 1 if matched else 0
    new = [entry for position, entry in enumerate(entries) if position >= first_new or entry.output_id is not None]
    return _pair_with_history(history, new)


def _pair_with_history(history: Sequence[Item], new: Sequence[MessageEntry]) -> JoinedHistory:
    answered = _answered_ids(history)
    called = [item["call_id"] for item in history if item["type"] in CALL_TYPES]
    open_ids = [call_id for call_id in called if call_id not in answered]
    paired, dropped = pair_outputs(new, open_ids, answered)
    return JoinedHistory(history, paired, dropped)


def open_requests(items: Sequence[Item]) -> list[Item]:
    """Returns the requests for approvals and input among these items that have no answer, in their order."""
    closed = {
        item.get("approval_request_id") for item in items if item["type"] in ("mcp_approval_response", "mcp_call")
    }
    return [item for item in items if item["type"] == "mcp_approval_request" and item["id"] not in closed]


def _facts_of(item: Item) -> list[tuple[str, ...]]:
    """Returns the parts of an item that the client has in its messages; empty for items that it does not see or may not
    keep."""
    if item["type"] == "message":
        fact = build_message_fact(item)
        return [] if fact is None else [fact]
    if (item["type"] == "mcp_call" and item.get("approval_request_id")) or item.get("continues"):
        return []  # The client knows the call of the request, or the first item of a call that asked for input.
    call = view_call(item)
    return [] if call is None else [build_call_fact(call)]


def _agree(stored: tuple[str, ...], sent: tuple[str, ...] | None) -> bool:
    """Whether two facts are the same. The name of a hosted tool may have changed since, so its call is its id."""
    if stored == sent:
        return True
    return sent is not None and stored[0] == sent[0] == "call" and stored[1] == sent[1] and stored[3] == sent[3]


def _changed_outputs(stored: Sequence[Item], entries: Sequence[MessageEntry]) -> set[str]:
    """Returns the ids of the calls whose result at the client differs from the stored one.

    The result may have come late, after the model got a placeholder for it, or the user has deleted it.
    """
    sent = {call_id: entry.item["output"] for entry in reversed(entries) if (call_id := entry.output_id)}
    outputs = [item for item in stored if item["type"] == "function_call_output"]
    return {item["call_id"] for item in outputs if sent.get(item["call_id"], NO_RESULT) != item["output"]}


def _awaited_calls(stored: Sequence[Item]) -> set[str]:
    """Returns the ids of the calls without an output that are not calls of functions, such as calls of a local shell.

    The client has their outputs as outputs of functions, so they are read as calls of functions as well.
    """
    answered = _answered_ids(stored)
    calls = [call for item in stored if item["type"] not in CALL_TYPES and (call := view_call(item)) is not None]
    return {call.call_id for call in calls if call.call_id not in answered}


def _answered_ids(items: Sequence[Item]) -> set[str]:
    """Returns the ids of the calls whose outputs are among these items, and of the calls that the gateway runs."""
    answered: set[str] = set()
    for item in items:
        if is_call_output(item):
            answered.add(item["call_id"])
        elif (is_hosted_call(item) or item["type"] == "mcp_approval_request") and (call := view_call(item)) is not None:
            answered.add(call.call_id)
    return answered
