"""Compares the whole message that some upstreams send at the end of a stream with the deltas before it.

The message may hold more than the deltas: the rest is then one more delta. It must not hold anything else, because
nobody could say which of the two is the model's. Text without its thinking, or in another normal form of Unicode, is
the same text: what was streamed stands, and the difference is a loss.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from translation.chat.call_entries import CallEntry, is_complete_json, list_call_entries, parse_call_entry
from translation.chat.reasoning import DETAILS_FIELD, find_reasoning_text
from translation.chat.reply_objects import flatten_text
from translation.errors import ProtocolViolation
from translation.representation.json_types import Json
from translation.representation.streamed_text import FinalRest, StreamedText
from translation.tools.arguments import is_same_json, strip_code_fence

_TEXT_FIELDS: Final = ("content", "refusal")
_LIST_FIELDS: Final = ("annotations", "images")
_PLAIN_FIELDS: Final = frozenset({"role", *_TEXT_FIELDS})
_OTHER_ARGUMENTS: Final = "the upstream's final message has other arguments of a call than it streamed"
_NO_VALUES: Final[tuple[Any, ...]] = (None, "", [], {})


class KnownCall(NamedTuple):
    """A call of the deltas. Its id is the upstream's. `arguments` is None if they were not recorded."""

    id: object
    name: str
    arguments: str | None


class StreamedMessage:
    """What the deltas of one choice held so far. Tool calls are recorded elsewhere."""

    __slots__ = (
        "_lists",
        "_reasoning_fields",
        "_separates_thoughts",
        "_texts",
        "_whole",
        "final_message",
        "has_other_form",
    )

    def __init__(self, reasoning_fields: Sequence[str], *, separates_thoughts: bool = False) -> None:
        """`separates_thoughts`: the client gets thinking between tags in the text as reasoning."""
        self.has_other_form = False
        """Whether the final message has the text in another form than the client got it in the deltas."""
        self.final_message: Json | None = None
        """A whole message beside the deltas, which may hold more than they do."""
        self._reasoning_fields = reasoning_fields
        self._separates_thoughts = separates_thoughts
        self._texts: dict[str, StreamedText] = {}
        self._lists: set[str] = set()
        """Fields with lists, of which some entries were sent."""
        self._whole: Json | None = None
        """A whole message that came first, until something follows it."""

    def begin_whole(self, message: Json) -> None:
        """Begins with a whole message. Nearly always it is all of the reply, so its texts are only read if more
        follows. It must not be changed."""
        self._whole = message

    def text_of(self, field: str) -> StreamedText:
        """Returns the text that was streamed in a field. All fields of reasoning have one text."""
        if self._whole is not None:
            self._read_whole()
        field = "reasoning" if field in self._reasoning_fields else field
        if (text := self._texts.get(field)) is None:
            text = self._texts[field] = StreamedText()
        return text

    def add(self, delta: Json) -> None:
        """Adds the texts of a delta."""
        if self._whole is not None:
            self._read_whole()
        for field in _TEXT_FIELDS:
            if value := delta.get(field):
                self.text_of(field).add(flatten_text(value))
        if _PLAIN_FIELDS.issuperset(delta):
            return  # as most deltas
        if text := find_reasoning_text(delta, self._reasoning_fields):
            self.text_of(self._reasoning_fields[0]).add(text)
        elif delta.get(DETAILS_FIELD):
            self._lists.add(DETAILS_FIELD)
        self._lists.update(field for field in _LIST_FIELDS if delta.get(field))
        match delta.get("function_call"):
            case {"arguments": str(arguments)}:
                self.text_of("function_call").add(arguments)

    def _read_whole(self) -> None:
        whole, self._whole = self._whole, None
        self.add(whole or {})

    def note_message(self, message: Any, delta: Json, *, is_last: bool) -> None:
        """Notes the whole message beside a delta, if there is one, as `final_message`.

        Some servers send the message so far, or a copy of the delta, in each chunk. So before the end of the stream a
        message is forgotten once the deltas hold all of it: what follows need not be in it. `is_last`: the stream has
        its finish reason. Raises ProtocolViolation if it is no message, or does not go on where an earlier one ended.
        """
        if message:
            if not isinstance(message, dict):
                raise ProtocolViolation("the upstream sent a message that is not a JSON object")
            if not _is_copy(message, delta):
                _require_same_beginning(self.final_message, message)
                self.final_message = message
        if not is_last and self.final_message is not None and self._has_all(self.final_message):
            self.final_message = None

    def build_missing_delta(self, message: Json) -> Json:
        """Returns the delta with what a final message has beyond the stream, without its calls: `{}` if nothing.

        Raises ProtocolViolation if it has another text. Thinking is shown as it was streamed, and not compared.
        """
        if self._whole is not None:
            self._read_whole()
        missing: Json = {}
        thought = find_reasoning_text(message, self._reasoning_fields)
        is_in_text = self.text_of("content").answer_start is not None
        for field in _TEXT_FIELDS:
            rest = self._find_rest(field, flatten_text(message.get(field)), thought or "")
            is_in_text |= rest.lacks_thought
            if rest.text:
                missing[field] = rest.text
        if thought and DETAILS_FIELD not in self._lists and not is_in_text:
            rest_of_thought = self.text_of(self._reasoning_fields[0]).find_rest(thought)
            if rest_of_thought is not None and rest_of_thought.text:
                missing[self._reasoning_fields[0]] = rest_of_thought.text
        for field in _LIST_FIELDS:
            if message.get(field) and field not in self._lists:
                missing[field] = message[field]
        return missing

    def _has_all(self, message: Json) -> bool:
        """Returns whether a message has no more than the stream so far."""
        try:
            return not message.get("tool_calls") and not self.build_missing_delta(message)
        except ProtocolViolation:
            return False

    def build_missing_function_call(self, function_call: Any) -> Json:
        """Returns the rest of a legacy call, which has one field for one call: `{}` if nothing is missing."""
        arguments = function_call.get("arguments") if isinstance(function_call, dict) else None
        if not isinstance(arguments, str):
            return {}
        if "function_call" not in self._texts:
            return {"function_call": function_call}
        rest = self._find_rest("function_call", arguments)
        if rest.is_normalized or rest.lacks_thought:
            raise ProtocolViolation(_OTHER_ARGUMENTS)
        return {"function_call": {"arguments": rest.text}} if rest.text else {}

    def _find_rest(self, field: str, final: str, thought: str = "") -> FinalRest:
        if not final.strip():
            return FinalRest("")  # the message says nothing of this field
        rest = self.text_of(field).find_rest(final, thought)
        if rest is None:
            raise ProtocolViolation("the upstream's final message differs from the text that it streamed")
        if rest.is_normalized or (rest.lacks_thought and not self._separates_thoughts):
            self.has_other_form = True
        return rest


def _is_copy(message: Json, delta: Json) -> bool:
    """Returns whether a message beside a delta only repeats the delta, as some servers send in each chunk."""
    return all(
        value == delta.get(field) or (value in _NO_VALUES and delta.get(field) in _NO_VALUES)
        for field, value in message.items()
        if field != "role"
    )


def _require_same_beginning(earlier: Json | None, message: Json) -> None:
    """Raises ProtocolViolation if a whole message does not go on where an earlier one of the same choice ended."""
    before, after = flatten_text((earlier or {}).get("content")), flatten_text(message.get("content"))
    if after and not after.startswith(before.rstrip()):
        raise ProtocolViolation("the upstream sent two messages with different texts in one stream")


def find_missing_calls(listed: Any, known: Sequence[KnownCall]) -> tuple[list[tuple[int, str]], list[Json]]:
    """Returns what the calls of a final message have beyond the deltas: (position, rest of the arguments) of known
    calls, and the entries of further ones.

    Raises ProtocolViolation if the calls are others, or fewer.
    """
    entries = list_call_entries(listed) if listed else []
    if entries and len(entries) < len(known):
        raise ProtocolViolation("the upstream's final message has fewer tool calls than it streamed")
    positions = {call.id: position for position, call in enumerate(known) if call.id}
    rests: list[tuple[int, str]] = []
    further: list[Json] = []
    for place, raw_entry in enumerate(entries):
        entry = parse_call_entry(raw_entry)
        position = positions.get(entry.id, place)
        if position >= len(known):
            further.append(raw_entry)
        elif rest := _find_rest_of_call(entry, known[position]):
            rests.append((position, rest))
    return rests, further


def _find_rest_of_call(entry: CallEntry, call: KnownCall) -> str:
    if entry.name and entry.name != call.name:
        raise ProtocolViolation("the upstream's final message has another tool call than it streamed")
    if call.arguments is None:
        return ""
    final, streamed = (strip_code_fence(text).strip() for text in (entry.text, call.arguments))
    if not final or final == streamed:
        return ""
    is_whole = is_complete_json(streamed)
    if not is_whole and final.startswith(streamed):
        return final[len(streamed) :]
    if is_whole and is_same_json(final, streamed):
        return ""
    raise ProtocolViolation(_OTHER_ARGUMENTS)


def join_texts(delta: Json, missing: Json) -> Json:
    """Returns a delta with what is `missing` after it."""
    joined = {**delta, **missing}
    for field, rest in missing.items():
        if isinstance(rest, str) and delta.get(field):
            joined[field] = flatten_text(delta[field]) + rest
    return joined
