"""Compaction items: what they hold, and what a model reads in their place."""

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
from translation.responses.schema.items import Item as ItemSchema
from translation.validation import check_body

_SEAL_PREFIX = "rgc"
"""What content sealed here begins with. The version follows, then a dot."""

_VERSION_PREFIX = f"{_SEAL_PREFIX}1."

_UNSEALABLE = frozenset({"compaction", "compaction_trigger", "item_reference"})
"""Items that would have to be looked up or opened themselves."""

_COMPACTION_TYPES = frozenset({"compaction", "compaction_trigger"})
"""Items that say what is read of the others."""

_SUMMARY_INTRODUCTION = "What was said before this message was replaced by this summary of it:\n\n"

SUMMARY_PROMPT = (
    "Write a summary of the whole conversation up to here. It will replace the conversation: whoever goes on with it "
    "reads the summary and nothing of what came before. State what the user wants and every wish and limit they named; "
    "what was decided and done, and why; facts, names, numbers, paths and identifiers exactly as they were given; what "
    "tools returned that still matters; and what is yet to be done. Write only the summary, call no tools, and do not "
    "go on with the conversation."
)
"""What a model is told last to have it write a summary."""


class CompactionContent(NamedTuple):
    """`lead` still instructs, `summary` stands for what was left out, `rest` stays as it was.

    `after_users`: the user messages right before the item were not left out: they are read before the summary.
    """

    summary: str
    lead: Sequence[Item] = ()
    rest: Sequence[Item] = ()
    after_users: bool = False


class _CompactionSchema(TypedDict):
    summary: str
    lead: list[ItemSchema]
    rest: list[ItemSchema]
    after_users: bool


def compaction_item(item_id: str, sealed: CompactionContent) -> Item:
    """The item that carries it."""
    return {"id": item_id, "type": "compaction", "encrypted_content": seal_compaction(sealed)}


def seal_compaction(sealed: CompactionContent) -> str:
    """Text that `unseal` takes. It is not secret: it holds only what its reader said or was told before."""
    held = orjson.dumps(sealed._asdict(), default=list)
    return f"{_VERSION_PREFIX}{zlib.crc32(held):08x}.{base64.urlsafe_b64encode(held).decode()}"


def unseal_compaction(content: str, param: str) -> CompactionContent | None:
    """What was sealed; None for content of another server. Raises InvalidRequest for content that was damaged."""
    if not content.startswith(_SEAL_PREFIX):
        return None
    try:
        held = _decode_content(content)
        check_body(_adapter(), held)
        orjson.dumps(held)  # what is nested too deep could not be sent on
    except (ValueError, TypeError, InvalidRequest):
        raise _unreadable_error(param, "it is damaged, or of a later version") from None
    lead, rest = ([expand_item(item) for item in held[name]] for name in ("lead", "rest"))
    if any(item["type"] in _UNSEALABLE for item in (*lead, *rest)):
        raise _unreadable_error(param, "it is damaged")
    return CompactionContent(held["summary"], lead, rest, held["after_users"])


def has_compaction_trigger(given: str | Sequence[Json] | None) -> bool:
    """Whether an input ends in the item that asks for a compaction instead of an answer."""
    return isinstance(given, list) and bool(given) and given[-1].get("type") == "compaction_trigger"


def lowest_threshold_entry(management: Iterable[Json] | None) -> Json | None:
    """The entry of `context_management` that comes into force first; None where nothing is asked for."""
    entries = sorted(management or (), key=lambda entry: entry.get("compact_threshold") or float("inf"))
    return entries[0] if entries else None


def was_just_compacted(history: Sequence[Item]) -> bool:
    """Whether the last turn of a history began with a compaction, so that its usage counts what is gone."""
    for item in reversed(history):
        if item["type"] == "compaction":
            return True
        if is_user_message(item) or item["type"].endswith("_output"):
            return False
    return False


def apply_compaction(items: Sequence[Item], *, native: bool = False) -> list[Item]:
    """What a model is to read of an input in full form: the last compaction item stands for what came before it.

    Of that only what instructs stays, and user messages right before it that it does not stand for. A trigger at the
    end is left out. `native`: the upstream has compaction items of its own, which stay as they are; elsewhere
    InvalidRequest is raised for them.
    """
    for place in reversed(range(len(items))):
        kind = items[place]["type"]
        if kind == "compaction_trigger" and not native and place < len(items) - 1:
            raise InvalidRequest("A compaction_trigger must be the last item of the input.", param=f"input[{place}]")
        if kind != "compaction":
            continue
        param = f"input[{place}].encrypted_content"
        sealed = unseal_compaction(items[place]["encrypted_content"], param)
        if sealed is not None:
            return [
                *_retained_items(items[:place], sealed),
                summary_message(items[place], sealed.summary),
                *sealed.rest,
                *_items_after(items, place, native),
            ]
        if not native:
            raise _unreadable_error(param, "another server made it")
    return _items_after(items, -1, native)


def summary_message(item: Item, summary: str) -> Item:
    """What a model reads in a compaction item's place."""
    content = [{"type": "input_text", "text": _SUMMARY_INTRODUCTION + summary}]
    item_id = str(item.get("id"))
    return {
        "id": item_id if item_id.startswith(SUMMARY_ID_PREFIX) else SUMMARY_ID_PREFIX,
        "type": "message",
        "role": "user",
        "content": content,
    }


def apply_compaction_to_turn(turn: Turn, *, native: bool = False) -> Turn:
    """A turn with what a model is to read of its items. Raises what `window` does."""
    if _COMPACTION_TYPES.isdisjoint([item["type"] for item in turn.items]):
        return turn
    items = apply_compaction(turn.items, native=native)
    if len(items) == len(turn.items) and all(one is other for one, other in zip(items, turn.items, strict=True)):
        return turn
    read_items, tools = expand_input(items, turn.tools)
    return replace(turn, items=read_items, tools=tools)


def apply_compaction_to_body(body: Json) -> Json:
    """A body whose upstream speaks Responses, its input with nothing in it that only this server can read."""
    given = body.get("input")
    if not isinstance(given, list) or not any(_is_own_compaction(item) for item in given):
        return body
    items = apply_compaction([expand_item(item) for item in given], native=True)
    return {**body, "input": [_without_summary_id(item) for item in items]}


def _is_own_compaction(item: Json) -> bool:
    return item.get("type") == "compaction" and item["encrypted_content"].startswith(_SEAL_PREFIX)


def _without_summary_id(item: Item) -> Item:
    # Upstreams that know ids refuse a message with a compaction item's.
    return {key: value for key, value in item.items() if key != "id"} if is_summary_message(item) else item


def _items_after(items: Sequence[Item], place: int, native: bool) -> list[Item]:
    after = list(items[place + 1 :])
    if after and after[-1]["type"] == "compaction_trigger" and not native:
        after.pop()
    return after


def _retained_items(before: Sequence[Item], sealed: CompactionContent) -> list[Item]:
    first_user = len(before)
    while sealed.after_users and first_user and is_user_message(before[first_user - 1]):
        first_user -= 1
    known = [_role_and_content(item) for item in sealed.lead]
    instructing = [
        item for item in before if item.get("role") in ("system", "developer") and _role_and_content(item) not in known
    ]
    return [*instructing, *sealed.lead, *before[first_user:]]


def _role_and_content(item: Item) -> tuple[Any, Any]:
    return item["role"], item.get("content", item.get("tools"))


def _unreadable_error(param: str, why: str) -> InvalidRequest:
    return InvalidRequest(
        f"The compaction item cannot be read: {why}. Send what it stands for, or leave it out.", param=param
    )


def _decode_content(content: str) -> Any:
    """Raises ValueError for what was damaged on its way."""
    version, checksum, text = content.split(".")
    held = base64.urlsafe_b64decode(text)
    if f"{version}." != _VERSION_PREFIX or checksum != f"{zlib.crc32(held):08x}":
        raise ValueError(version)
    return orjson.loads(held)


@cache
def _adapter() -> TypeAdapter[Any]:
    return TypeAdapter(_CompactionSchema)
