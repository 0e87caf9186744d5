"""Past calls on a chat relay, each under an id of its own."""

from collections.abc import Iterable, Iterator, Sequence

from translation.hygiene.past_calls import with_unique_call_ids_lenient
from translation.representation.json_types import Item, Json


def with_unique_call_ids(messages: Sequence[Json]) -> Sequence[Json]:
    """The messages with no id of a call blank or used twice, in calls and in the tool messages that answer them; the
    same object where none is. That each call has its answer was checked before."""
    halves = list(_call_id_items(messages))
    if not halves:
        return messages
    own = with_unique_call_ids_lenient(halves)
    return messages if own is halves else _replace_ids(messages, (half["call_id"] for half in own))


def _call_id_items(messages: Iterable[Json]) -> Iterator[Item]:
    """Calls and answers as items that have no more than their ids."""
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
    # Other roles may have any key by that name: it means nothing there.
    return (message.get("tool_calls") or ()) if message["role"] == "assistant" else ()
