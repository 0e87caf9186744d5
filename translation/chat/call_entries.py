"""Reads the entries of `tool_calls` of chat upstreams, which come in several forms."""

from collections.abc import Sequence
from types import NoneType
from typing import Any, Final, NamedTuple

import orjson

from translation.chat.reasoning import EXTRA_CONTENT
from translation.errors import ProtocolViolation
from translation.representation.json_types import Json
from translation.tools.arguments import is_same_json

_ENTRY_TYPES: Final = (dict, str, NoneType)
"""Types of members of `tool_calls`. Texts and null say nothing, and are left out."""

_OPTIONAL_TEXT: Final = (str, NoneType)

_ENTRY_KEYS: Final = frozenset({"arguments", "custom", "function", "id", "index", "name", "type"})


class CallEntry(NamedTuple):
    """One entry of `tool_calls`, parsed. `text` is a piece of the call's arguments or input."""

    call_index: int | None
    id: str | None
    name: str
    text: str
    is_custom: bool
    extra_content: Json | None


def list_call_entries(entries: Any) -> list[Json]:
    """Returns the entries of `tool_calls`.

    Some servers send one call instead of a list, and some an object whose keys are the positions in the list:
    `{"0": {…}}`. Raises ProtocolViolation for anything else, so that no call is lost.
    """
    match entries:
        case list() if all(isinstance(entry, _ENTRY_TYPES) for entry in entries):
            return [require_call_body(entry) for entry in entries if isinstance(entry, dict)]
        case dict() if not _ENTRY_KEYS.isdisjoint(entries):
            return [require_call_body(entries)]
        case dict() if all(key.isdecimal() and isinstance(entry, dict) for key, entry in entries.items()):
            return [{"index": int(key), **require_call_body(entries[key])} for key in sorted(entries, key=int)]
    raise ProtocolViolation("the upstream sent tool calls that are not a list of objects")


def require_call_body(entry: Json) -> Json:
    """Returns an entry of `tool_calls`, with an index that is a number or null.

    Raises ProtocolViolation for a function that is no object, or has no name that a client could look up.
    """
    for key in ("function", "custom"):
        body = entry.get(key)
        if body is not None and not (isinstance(body, dict) and isinstance(body.get("name"), _OPTIONAL_TEXT)):
            raise ProtocolViolation(f"the upstream sent a tool call whose `{key}` is malformed")
    index = entry.get("index")
    return entry if index is None or type(index) is int else {**entry, "index": _read_index(index)}


def _read_index(value: Any) -> int | None:
    """Returns the index of a call that some servers write as a text, or as a number with a fraction."""
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() else None


def is_complete_json(arguments: str) -> bool:
    """Whether the arguments so far are one complete JSON object, so that no more can follow."""
    if not arguments.rstrip().endswith("}"):
        return False
    try:
        orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return False
    return True


def are_complete(texts: Sequence[str]) -> bool:
    """Whether the pieces of arguments so far are one complete JSON object, so that no more can follow."""
    # The cheap check of the last piece comes first: a long call has thousands of pieces to join.
    last = next((text for text in reversed(texts) if text.strip()), "")
    return last.rstrip().endswith("}") and is_complete_json("".join(texts))


def repeats_arguments(entry: CallEntry, call_id: str | None, name: str, texts: Sequence[str]) -> bool:
    """Whether an entry of a stream only repeats its call, whose arguments in `texts` are complete.

    Some servers end a call with all of its arguments again, or with a JSON text of them. An entry that has a name could
    also begin the next call, so it needs the id of the call. Clients would run the call twice, or could not parse it.
    """
    piece = entry.text.strip()
    is_quoted = piece.startswith('"{') and piece.endswith('}"')
    if not (is_quoted or (piece.startswith("{") and piece.endswith("}"))) or entry.is_custom:
        return False
    if entry.id != call_id and (entry.name or entry.id is not None):
        return False
    if entry.name and (entry.name != name or entry.id is None):
        return False
    if not are_complete(texts):
        return False
    try:
        return is_same_json("".join(texts), str(orjson.loads(piece)) if is_quoted else piece)
    except orjson.JSONDecodeError:
        return False


def parse_call_entry(entry: Json) -> CallEntry:
    body = entry.get("function")
    text_key, custom = "arguments", False
    if not isinstance(body, dict) and isinstance(entry.get("custom"), dict):
        body, text_key, custom = entry["custom"], "input", True
    if not isinstance(body, dict):
        body = entry  # flat, as in the legacy `function_call`
    index, call_id, name, text = entry.get("index"), entry.get("id"), body.get("name"), body.get(text_key)
    return CallEntry(
        index if isinstance(index, int) else None,
        str(call_id) if call_id else None,
        name if isinstance(name, str) else "",
        text if isinstance(text, str) else "" if text is None else orjson.dumps(text).decode(),
        custom or entry.get("type") == "custom",
        extra if isinstance(extra := entry.get(EXTRA_CONTENT), dict) else None,
    )
