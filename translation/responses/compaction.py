"""Builds and reads compaction items, and replaces them by the items that a model reads in their place.

Does not know when an input is compacted, or how the summary is generated.
"""

import base64
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import orjson
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from translation.errors import InvalidRequest
from translation.hygiene.item_groups import SUMMARY_ID_PREFIX, is_summary_message, is_user_message
from translation.representation.json_types import Item, Json
from translation.representation.turn import Turn
from translation.responses.input_items import expand_input, expand_item
from translation.responses.schema.items import InputItem
from translation.validation import build_adapter, check_body

_SEAL_PREFIX = "rgc"
"""The first characters of content that this gateway sealed. The version follows, then a dot."""

_VERSION_PREFIX = f"{_SEAL_PREFIX}1."

_UNSEALABLE = frozenset({"compaction", "compaction_trigger", "item_reference"})
"""Types of items that sealed content may not hold, because they would have to be resolved themselves."""

_COMPACTION_TYPES = frozenset({"compaction", "compaction_trigger"})
"""Types of items that change which other items a model reads."""

_SUMMARY_INTRODUCTION = "What was said before this message was replaced by this summary of it:\n\n"

SUMMARY_PROMPT = (
    "Write a summary of the whole conversation up to here. It will replace the conversation: whoever goes on with it "
    "reads the summary and nothing of what came before. State what the user wants and every wish and limit they named; "
    "what was decided and done, and why; facts, names, numbers, paths and identifiers exactly as they were given; what "
    "tools returned that still matters; and what is yet to be done. Write only the summary, call no tools, and do not "
    "go on with the conversation."
)
"""The last message of a request for a summary."""


class CompactionContent(NamedTuple):
    """The content of a compaction item.

    `summary` replaces the summarized items. `lead` are instructions to read before it, `rest` are items to read after
    it. `after_users` says that the user messages directly before the item are not summarized: they are read before the
    summary.
    """

    summary: str
    lead: Sequence[Item] = ()
    rest: Sequence[Item] = ()
    after_users: bool = False


class _CompactionSchema(TypedDict):
    summary: str
    lead: list[InputItem]
    rest: list[InputItem]
    after_users: bool


def build_compaction_item(item_id: str, content: CompactionContent) -> Item:
    """Returns a compaction item that holds `content`."""
    return {"id": item_id, "type": "compaction", "encrypted_content": seal_compaction(content)}


def seal_compaction(content: CompactionContent) -> str:
    """Returns text that `unseal_compaction` reads. It is not encrypted: it holds only what the client sent or received.

    Its form is the version, the CRC-32 of the JSON, and the JSON in base64, separated by dots.
    """
    json_bytes = orjson.dumps(content._asdict(), default=list)
    return f"{_VERSION_PREFIX}{zlib.crc32(json_bytes):08x}.{base64.urlsafe_b64encode(json_bytes).decode()}"


def unseal_compaction(content: str, param: str) -> CompactionContent | None:
    """Returns the content of a compaction item, `None` if another server made it.

    Raises InvalidRequest for `param` if the content is damaged or has an unknown version.
    """
    if not content.startswith(_SEAL_PREFIX):
        return None
    try:
        fields = _decode_content(content)
        check_body(_adapter(), fields)
        orjson.dumps(fields)  # fails for JSON that is nested too deep to be sent upstream
    except (ValueError, TypeError, InvalidRequest):
        raise _unreadable_error(param, "it is damaged, or of a later version") from None
    lead, rest = ([expand_item(item) for item in fields[name]] for name in ("lead", "rest"))
    if any(item["type"] in _UNSEALABLE for item in (*lead, *rest)):
        raise _unreadable_error(param, "it is damaged")
    return CompactionContent(fields["summary"], lead, rest, fields["after_users"])


def has_compaction_trigger(input_value: str | Sequence[Json] | None) -> bool:
    """Whether an input ends with the item that requests a compaction instead of a reply."""
    return isinstance(input_value, list) and bool(input_value) and input_value[-1].get("type") == "compaction_trigger"


def find_lowest_threshold(management: Iterable[Json] | None) -> Json | None:
    """Returns the entry of `context_management` with the lowest threshold, `None` without entries."""
    entries = sorted(management or (), key=lambda entry: entry.get("compact_threshold") or float("inf"))
    return entries[0] if entries else None


def was_just_compacted(history: Sequence[Item]) -> bool:
    """Whether the last turn of a history began with a compaction. Then its usage counts items that were replaced."""
    for item in reversed(history):
        if item["type"] == "compaction":
            return True
        if is_user_message(item) or item["type"].endswith("_output"):
            return False
    return False


def apply_compaction(items: Sequence[Item], *, native: bool = False) -> list[Item]:
    """Returns what a model reads of an input in full form: the last compaction item replaces the items before it.

    Only instructions stay of these, and the user messages directly before it that it does not summarize. A trigger at
    the end is removed. `native` says that the upstream has compaction items of its own: its items stay. Without it,
    raises InvalidRequest for items of another server. Also raises InvalidRequest for a damaged item and for a trigger
    that is not the last item.
    """
    for index in reversed(range(len(items))):
        kind = items[index]["type"]
        if kind == "compaction_trigger" and not native and index < len(items) - 1:
            raise InvalidRequest("A compaction_trigger must be the last item of the input.", param=f"input[{index}]")
        if kind != "compaction":
            continue
        param = f"input[{index}].encrypted_content"
        content = unseal_compaction(items[index]["encrypted_content"], param)
        if content is not None:
            return [
                *_retained_items(items[:index], content),
                build_summary_message(items[index], content.summary),
                *content.rest,
                *_items_after(items, index, native),
            ]
        if not native:
            raise _unreadable_error(param, "another server made it")
    return _items_after(items, -1, native)


def build_summary_message(item: Item, summary: str) -> Item:
    """Returns the user message that a model reads in place of the compaction item `item`."""
    content = [{"type": "input_text", "text": _SUMMARY_INTRODUCTION + summary}]
    item_id = str(item.get("id"))
    return {
        "id": item_id if item_id.startswith(SUMMARY_ID_PREFIX) else SUMMARY_ID_PREFIX,
        "type": "message",
        "role": "user",
        "content": content,
    }


def apply_compaction_to_turn(turn: Turn, *, native: bool = False) -> Turn:
    """Returns the turn with its compaction items replaced, the same object if it has none.

    Raises what `apply_compaction` raises.
    """
    if _COMPACTION_TYPES.isdisjoint(turn.item_types):
        return turn
    items = apply_compaction(turn.items, native=native)
    if len(items) == len(turn.items) and all(
        new_item is item for new_item, item in zip(items, turn.items, strict=True)
    ):
        return turn
    read_items, tools = expand_input(items, turn.tools)
    return replace(turn, items=read_items, tools=tools)


def apply_compaction_to_body(body: Json) -> Json:
    """Returns a body for a Responses upstream, with the compaction items that this gateway made replaced.

    Returns the same object if it has none. Raises what `apply_compaction` raises.
    """
    input_value = body.get("input")
    if not isinstance(input_value, list) or not any(_is_own_compaction(item) for item in input_value):
        return body
    items = apply_compaction([expand_item(item) for item in input_value], native=True)
    return {**body, "input": [_without_summary_id(item) for item in items]}


def _is_own_compaction(item: Json) -> bool:
    return item.get("type") == "compaction" and item["encrypted_content"].startswith(_SEAL_PREFIX)


def _without_summary_id(item: Item) -> Item:
    # Upstreams that check ids refuse a message with the id of a compaction item.
    return {key: value for key, value in item.items() if key != "id"} if is_summary_message(item) else item


def _items_after(items: Sequence[Item], index: int, native: bool) -> list[Item]:
    after = list(items[index + 1 :])
    if after and after[-1]["type"] == "compaction_trigger" and not native:
        after.pop()
    return after


def _retained_items(before: Sequence[Item], content: CompactionContent) -> list[Item]:
    first_user = len(before)
    while content.after_users and first_user and is_user_message(before[first_user - 1]):
        first_user -= 1
    lead_keys = [_role_and_content(item) for item in content.lead]
    instructions = [
        item
        for item in before
        if item.get("role") in ("system", "developer") and _role_and_content(item) not in lead_keys
    ]
    return [*instructions, *content.lead, *before[first_user:]]


def _role_and_content(item: Item) -> tuple[Any, Any]:
    return item["role"], item.get("content", item.get("tools"))


def _unreadable_error(param: str, why: str) -> InvalidRequest:
    return InvalidRequest(
        f"The compaction item cannot be read: {why}. Send the items it replaces, or leave it out.", param=param
    )


def _decode_content(content: str) -> Any:
    """Returns the parsed JSON of sealed content. Raises ValueError if it is damaged or has another version."""
    version, checksum, text = content.split(".")
    json_bytes = base64.urlsafe_b64decode(text)
    if f"{version}." != _VERSION_PREFIX or checksum != f"{zlib.crc32(json_bytes):08x}":
        raise ValueError(version)
    return orjson.loads(json_bytes)


@cache
def _adapter() -> TypeAdapter[Any]:
    return build_adapter(_CompactionSchema)
