"""Gives every past tool call of a relayed chat request a unique id."""

from collections.abc import Iterable, Iterator, Sequence

from translation.hygiene.past_calls import with_unique_call_ids_lenient
from translation.representation.json_types import Item, Json


def with_unique_message_call_ids(messages: Sequence[Json]) -> Sequence[Json]:
    """Returns the messages with blank and repeated call ids replaced, in calls and in the tool messages they belong to.

    Returns the same object if every id is already unique. The caller has checked that each call has its output.
    """
    items = list(_call_id_items(messages))
    if not items:
        return messages
    unique = with_unique_call_ids_lenient(items)
    return messages if unique is items else _replace_ids(messages, (item["call_id"] for item in unique))


def _call_id_items(messages: Iterable[Json]) -> Iterator[Item]:
    """Yields calls and tool messages as items that have only `type` and `call_id`."""
    for message in messages:
        role = message["role"]
        if role == "tool":
            yield {"type": "function_call_output", "call_id": message["tool_call_id"]}
        elif role == "assistant":
            for call in _calls_of(message):
                yield {"type": "function_call", "call_id": call["id"]}


def _replace_ids(messages: Iterable[Json], ids: Iterator[str]) -> list[Json]:
    renamed: list[Json] = []
    for message in messages:
        if message["role"] == "tool":
            renamed.append({**message, "tool_call_id": next(ids)})
        elif calls := _calls_of(message):
            renamed.append({**message, "tool_calls": [{**call, "id": next(ids)} for call in calls]})
        else:
            renamed.append(message)
    return renamed


def _calls_of(message: Json) -> Sequence[Json]:
    # In messages of other roles a key `tool_calls` has no meaning and any shape.
    return (message.get("tool_calls") or ()) if message["role"] == "assistant" else ()
