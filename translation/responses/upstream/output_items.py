"""The items of a Responses upstream's output, with the texts that were streamed.

Compares the whole texts, parts and items at the end of a stream with them: what they have beyond is sent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Final

from translation.decoding.unshown_output import build_final_text_event
from translation.errors import ProtocolViolation
from translation.representation.events import Annotated, Delta, Event, PartEnded, PartStarted
from translation.representation.items import TEXT_FIELDS
from translation.representation.json_types import Item, Json
from translation.representation.streamed_text import FinalRest, find_rest
from translation.responses.item_forms import find_missing_lists, is_blank
from translation.tools.arguments import is_same_json

_OMIT_IF_NULL = ("annotations", "content", "encrypted_content", "logprobs", "phase", "role", "summary")
"""Keys that are removed if they are null, because strict readers refuse null. vLLM sends them so."""

_OPTIONAL_LIST: Final = (list, NoneType)

_OPTIONAL_TEXT: Final = (str, NoneType)
"""Built once, because an inline `list | None` builds a new type object at each check."""

_POSITION_KEYS: Final = ("start_index", "end_index")
"""Keys of a citation with places in the text."""

_DIFFERS: Final = "the upstream's final text differs from the text that it streamed"

_CONTINUES_DISPLACED: Final = "the upstream streamed more text of an item after another item had taken its place"


@dataclass(slots=True)
class TextState:
    """One text that was streamed: of a part, or of the item itself. The indexes are the gateway's."""

    index: int
    part_index: int | None
    text_key: str | None
    part_type: str | None = None
    """The type of the part. None for a text of the item itself."""
    is_reasoning: bool = False
    pieces: list[str] = field(default_factory=list)
    """The text so far."""
    annotations: list[Json] = field(default_factory=list)
    """The citations so far."""
    is_open: bool = True
    is_announced: bool = False
    """Whether an event added the part, before its texts."""
    has_other_form: bool = False
    """Whether the upstream's final text is another form of this one."""
    has_thought: bool = False
    """Whether it has thinking that the upstream's final text does not have."""
    is_of_summary: bool = False
    """Whether the part is one of a summary, whose parts are paragraphs: each has a number also if it is one piece."""
    stray_count: int = 0
    """How many events with a number that no part has were taken as its own."""

    is_repeated: bool = False
    """Whether an event with the part's own number had the whole text."""
    is_settled: bool = False
    """Whether an event ended one of several pieces that came with numbers of their own. Then nothing more may come."""
    numbered: dict[int, list[str]] = field(default_factory=dict)
    """The upstream's number of a part -> the pieces that came with it, except for further ones of the first number."""

    @property
    def takes_strays(self) -> bool:
        """Whether texts with other numbers belong to the part: the upstream announced it, but sent no text with the
        part's own number, or announced no part, and sent each piece with a number of its own."""
        if self.is_announced:
            return len(self.pieces) <= self.stray_count
        if self.is_of_summary:
            return False
        return self.is_open and not self.is_repeated and len(self.pieces) <= self.stray_count + 1

    def has_numbered(self, number: int, whole: Any) -> bool:
        """Returns whether the whole text of a part is only what came with its number, and not all of the text."""
        is_split = self.stray_count > 0 and not self.is_announced and number in self.numbered
        return is_split and "".join(self.numbered[number]) == whole


@dataclass(slots=True)
class OutputItem:
    """One item that was started. `index` is the gateway's number of the item, not the upstream's `output_index`."""

    index: int
    start: Item
    own_text: TextState
    texts: dict[tuple[str, int], TextState] = field(default_factory=dict)
    """The key of the list, and the upstream's number of the part -> its text."""
    newest: dict[str, TextState] = field(default_factory=dict)
    """The key of a list -> the text of its newest part."""
    is_open: bool = True
    is_done: bool = False
    """Whether the upstream ended it, with the whole of it. Without that, more about it may come."""
    is_displaced: bool = False
    """Whether another item took its output index. It has ended then, whether or not the upstream ended it."""

    @property
    def has_text(self) -> bool:
        """Whether deltas of an answer or a call came for it."""
        return self.type != "reasoning" and any(text.pieces for text in (self.own_text, *self.texts.values()))

    @property
    def has_thought_in_text(self) -> bool:
        """Whether its text has thinking that the upstream's final value does not have there."""
        return any(text.has_thought for text in self.texts.values())

    @property
    def type(self) -> str:
        return str(self.start["type"])

    def list_texts(self, list_key: str) -> list[TextState]:
        """Returns the texts of the parts in one list, in their order."""
        return [text for (key, _), text in self.texts.items() if key == list_key]


class DisplacedItems:
    """The items of one output whose output index another item took.

    They have ended, so nothing can be added to them. The upstream may still send events about them, also at the index
    that they had.
    """

    def __init__(self) -> None:
        self.items: list[OutputItem] = []
        self._by_id: dict[Any, OutputItem] = {}
        self._by_call_id: dict[Any, OutputItem] = {}

    def add(self, item: OutputItem) -> None:
        item.is_displaced = True
        self.items.append(item)
        self._by_id[item.start["id"]] = item
        self._by_call_id[item.start.get("call_id")] = item

    def free_id(self, item: Item) -> None:
        """Forgets the displaced item whose id a new one of the same type has: from now on the id names that one."""
        known = self._by_id.get(item["id"])
        if known is not None and known.type == item["type"]:
            del self._by_id[item["id"]]

    def find_owner(self, chunk: Json, current: OutputItem | None) -> OutputItem | None:
        """Returns the item that an event about a text or a part names by its id.

        Returns None if the event is about `current`, the item that has the index now.
        """
        item_id = chunk.get("item_id")
        return None if current is not None and current.start["id"] == item_id else self._by_id.get(item_id)

    def find_same(self, whole: Item, current: OutputItem | None) -> OutputItem | None:
        """Returns the item that an event names by the whole of it; None if that is `current` or no displaced item.

        The id of a call decides before the id of an item, which some upstreams give to several items.
        """
        for key, known in (("call_id", self._by_call_id), ("id", self._by_id)):
            if not (value := whole.get(key)):
                continue
            if current is not None and current.type == whole["type"] and current.start.get(key) == value:
                return None
            if (item := known.get(value)) is not None and item.type == whole["type"]:
                return item
        return None

    def is_repetition(self, added: Item, current: OutputItem | None) -> bool:
        """Returns whether an event adds a displaced item once more, and not another one with its id.

        The ids of calls tell. Items without them are the same until the upstream has ended the displaced one: some
        upstreams give all their messages one id.
        """
        if (item := self.find_same(added, current)) is None:
            return False
        call_id, known_call_id = added.get("call_id"), item.start.get("call_id")
        return bool(call_id == known_call_id) if call_id and known_call_id else not item.is_done


def refuse_displaced_delta(piece: Any) -> list[Event]:
    """Returns no events for a piece of a displaced item that has no text.

    Raises ProtocolViolation for one with text: its item has ended, and in another item it would be wrong.
    """
    if piece and isinstance(piece, str):
        raise ProtocolViolation(_CONTINUES_DISPLACED)
    return []


def compare_displaced_text(
    item: OutputItem, list_key: str, number: int, text_key: str, whole: Mapping[str, Any]
) -> list[Event]:
    """Compares the whole of one text of a displaced item with what was streamed of it. `list_key` is empty for the text
    of the item itself. Returns the events of another form.

    Raises ProtocolViolation if it is another text, or has more: it is too late to send that.
    """
    if not list_key:
        text = item.own_text
    elif is_repeated(item, list_key, number, whole.get(text_key)):
        return []
    else:
        texts = item.list_texts(list_key)
        # Versions of vLLM number the end of a text otherwise than its pieces.
        only = texts[0] if len(texts) == 1 else _build_unsent_text(item, text_key)
        text = item.texts.get((list_key, number), only)
    return build_missing_text(text if text.text_key == text_key else _build_unsent_text(item, text_key), whole)


def _build_unsent_text(item: OutputItem, text_key: str | None) -> TextState:
    """Returns the state of a text of an ended item of which nothing was streamed."""
    return TextState(item.index, None, text_key, is_reasoning=item.type == "reasoning", is_open=False)


def keep_streamed_texts(item: OutputItem, final: Item) -> Item:
    """Returns a final item with the texts that were streamed, where its own are another form of them, are missing or
    are blank."""
    for list_key in ("content", "summary"):
        parts = list_parts(final, list_key)
        texts = _pair_texts(item, list_key, parts)
        if texts is None and isinstance(final.get(list_key), _OPTIONAL_LIST) and _are_blank(item, parts):
            if streamed := _build_streamed_parts(item, list_key):
                final = {**final, list_key: streamed}
        elif texts:
            pairs = zip(texts, parts, strict=True)
            final = {
                **final,
                list_key: [part if text is None else keep_streamed_text(text, part) for text, part in pairs],
            }
    return keep_streamed_text(item.own_text, final)


def keep_streamed_text(text: TextState, whole: Json) -> Json:
    """Returns a final part or item with the text that was streamed, if its own is another form of it, is missing or is
    blank, and with the citations that were streamed, if it has none."""
    key = text.text_key
    if key is None:
        return whole
    streamed = "".join(text.pieces)
    is_own = text.part_index is None
    is_text = bool(text.pieces) if is_own else whole.get("type") == text.part_type
    is_missing = is_text and (whole.get(key) is None or (is_blank(whole[key]) and not is_blank(streamed)))
    additions: Json = {key: streamed} if is_missing or text.has_other_form else {}
    if text.annotations and is_text and not whole.get("annotations"):
        additions["annotations"] = [*text.annotations]
    return {**whole, **additions} if additions else whole


def _build_streamed_parts(item: OutputItem, list_key: str) -> list[Json]:
    """Returns the parts of one list as they were streamed; none if they have no ink."""
    texts = [text for text in item.list_texts(list_key) if text.text_key is not None]
    if is_blank(_join_pieces(texts)):
        return []
    return [keep_streamed_text(text, {"type": text.part_type}) for text in texts]


def _are_blank(item: OutputItem, parts: Sequence[Json]) -> bool:
    """Returns whether no part of a whole item has ink. A part of an unknown type may have any content."""
    fields = [TEXT_FIELDS.get((item.type, part.get("type"))) for part in parts]
    return all(field is not None and is_blank(part.get(field.key)) for field, part in zip(fields, parts, strict=True))


def list_parts(item: Item, list_key: str) -> Sequence[Json]:
    """Returns the parts in one list of an item; none if there is no list. Items of some types have a text there."""
    parts = item.get(list_key)
    return parts if isinstance(parts, list) else ()


def start_part(item: OutputItem, list_key: str, position: int, part: Json) -> tuple[list[Event], TextState]:
    start = remove_nulls(part)
    text_field = TEXT_FIELDS.get((item.type, part.get("type")))
    emptied: dict[str, Any] = {key: [] for key in ("annotations", "logprobs") if start.get(key)}
    if text_field is not None:
        emptied[text_field.key] = ""
    text_key = text_field and text_field.key
    part_index = len(item.texts)
    text = item.texts[list_key, position] = TextState(
        item.index, part_index, text_key, part.get("type"), item.type == "reasoning"
    )
    text.is_of_summary = list_key == "summary"
    item.newest[list_key] = text
    return [PartStarted(item.index, part_index, {**start, **emptied})], text


def build_delta_events(text: TextState, piece: Any, logprobs: Any) -> list[Event]:
    if not piece or not text.is_open or not isinstance(piece, str):
        return []
    text.pieces.append(piece)
    return [Delta(text.index, text.part_index, piece, logprobs if logprobs and isinstance(logprobs, list) else None)]


def build_missing_text(text: TextState, whole: Mapping[str, Any]) -> list[Event]:
    """Returns the text of a whole object that had no delta, as a delta: all of it, or the rest.

    Raises ProtocolViolation if the deltas were another text: nobody could say which of the two is the model's.
    """
    if text.text_key is None:
        return []
    if not isinstance(full_text := whole.get(text.text_key), _OPTIONAL_TEXT):
        raise TypeError("a text is not a string")
    sent = "".join(text.pieces)
    if not full_text or full_text == sent or (full_text.isspace() and not is_blank(sent)):
        return []  # a blank value stands for what was streamed
    if full_text.startswith(sent) and text.is_open and not text.is_settled:
        return build_delta_events(text, full_text[len(sent) :], None if sent else whole.get("logprobs"))
    if text.is_reasoning or full_text.strip() == sent.strip():
        return []  # white space is trimmed by some upstreams, and thinking is shown as it was streamed
    if text.text_key != "arguments":
        return _read_other_form(text, find_rest(sent, full_text))
    if is_same_json(full_text, sent):
        return []
    raise ProtocolViolation(_DIFFERS)


def _read_other_form(text: TextState, rest: FinalRest | None) -> list[Event]:
    """Returns the events of a final text that is another form of the streamed one: that stands, and is reported once.

    Raises ProtocolViolation if it is none.
    """
    if rest is None or (rest.text and (text.is_settled or not text.is_open)):
        raise ProtocolViolation(_DIFFERS)
    events = build_delta_events(text, rest.text, None)
    text.has_thought = text.has_thought or rest.lacks_thought
    if (rest.is_normalized or rest.lacks_thought) and not text.has_other_form:
        text.has_other_form = True
        events.append(build_final_text_event())
    return events


def find_stray_part(item: OutputItem, list_key: str, part: Json) -> TextState | None:
    """Returns the text of the newest part, if an event with another number belongs to it.

    Some versions of vLLM give each delta a number of its own, after one event that adds the part.
    """
    newest = item.newest.get(list_key)
    text_field = TEXT_FIELDS.get((item.type, part.get("type")))
    if newest is None or text_field is None or newest.text_key != text_field.key or not newest.takes_strays:
        return None
    newest.stray_count += 1
    return newest


def is_repeated(item: OutputItem, list_key: str, number: int, whole: Any) -> bool:
    """Returns whether a whole text is the piece with this number, in a part with several, or, under a number that no
    part has, what all parts of the list had together."""
    newest = item.newest.get(list_key)
    if newest is None:
        return False
    if newest.has_numbered(number, whole):
        newest.is_settled = True
        return True
    if (list_key, number) in item.texts or newest.takes_strays:
        return False
    return bool(whole == _join_pieces(item.list_texts(list_key)) != "")


def join_parts(item: OutputItem, final: Item) -> Item:
    """Returns a final item with one part, if its parts were streamed as one because each piece had its own number."""
    texts = item.list_texts("content")
    parts = list_parts(final, "content")
    if len(texts) != 1 or len(parts) < 2 or not texts[0].stray_count or texts[0].is_announced:
        return final
    text_key = texts[0].text_key
    if text_key is None or not all(isinstance(part.get(text_key), str) for part in parts):
        return final
    whole = ""
    annotations: list[Json] = []
    for part in parts:
        annotations += [_move_annotation(each, len(whole)) for each in part.get("annotations") or ()]
        whole += part[text_key]
    joined = {**parts[0], text_key: whole}
    return {**final, "content": [{**joined, "annotations": annotations} if annotations else joined]}


def _move_annotation(annotation: Json, distance: int) -> Json:
    moved = {key: annotation[key] + distance for key in _POSITION_KEYS if isinstance(annotation.get(key), int)}
    return {**annotation, **moved}


def _join_pieces(texts: Sequence[TextState]) -> str:
    return "".join(piece for text in texts for piece in text.pieces)


def _pair_texts(item: OutputItem, list_key: str, parts: Sequence[Json]) -> list[TextState | None] | None:
    """Returns for each part of a whole item its text, None for a part that had no events.

    Some upstreams number the parts of a response and not those of an item: then they belong together in their order.
    Returns None instead of a list if there are more streamed texts than parts.
    """
    numbers = [number for key, number in item.texts if key == list_key]
    if all(0 <= number < len(parts) for number in numbers):
        return [item.texts.get((list_key, position)) for position in range(len(parts))]
    texts = [text for text in item.list_texts(list_key) if text.pieces]
    return None if len(texts) > len(parts) else [*texts, *[None] * (len(parts) - len(texts))]


def end_parts(item: OutputItem, list_key: str, parts: Sequence[Json]) -> list[Event]:
    """Ends the parts in one list of a whole item. Raises ProtocolViolation if it lacks one that was streamed."""
    if not parts:
        return []
    if (texts := _pair_texts(item, list_key, parts)) is None:
        return _end_split_part(item, list_key, parts)
    events: list[Event] = []
    for position, (text, part) in enumerate(zip(texts, parts, strict=True)):
        if text is None:
            started, text = start_part(item, list_key, _free_number(item, list_key, position), part)
            events += started
        events += end_part(text, part)
    return events


def _free_number(item: OutputItem, list_key: str, position: int) -> int:
    """Returns the position of a part, or the next number that no other part has."""
    while (list_key, position) in item.texts:
        position += 1
    return position


def _end_split_part(item: OutputItem, list_key: str, parts: Sequence[Json]) -> list[Event]:
    """Ends more texts than a whole item has parts: all belong to its single part, which decides what they lack.

    Raises ProtocolViolation if they do not. Thinking is shown as it was streamed, and not compared. Blank parts stand
    for what was streamed.
    """
    if item.type == "reasoning" or _are_blank(item, parts):
        return []
    text_field = TEXT_FIELDS.get((item.type, parts[0].get("type")))
    whole = parts[0].get(text_field.key) if text_field and len(parts) == 1 else None
    texts = item.list_texts(list_key)
    streamed = _join_pieces(texts)
    rest = find_rest(streamed, whole) if isinstance(whole, str) else None
    if rest is None or (rest.text and not texts[-1].is_open):
        raise ProtocolViolation("the upstream's final item lacks a part that it streamed")
    return _read_other_form(texts[-1], rest)


def compare_ended_texts(item: OutputItem, final: Item) -> list[Event]:
    """Compares the item's texts that have ended with those of the final item. Returns the events of another form.

    Raises ProtocolViolation if they are others, and if a displaced item has a part of which nothing was streamed.
    """
    events: list[Event] = []
    final = join_parts(item, final)
    for list_key in ("summary", "content"):
        parts = list_parts(final, list_key)
        if not parts:
            continue
        if (texts := _pair_texts(item, list_key, parts)) is None:
            if not item.is_open:
                events += _end_split_part(item, list_key, parts)
            continue
        for text, part in zip(texts, parts, strict=True):
            if text is None and item.is_displaced:
                text_field = TEXT_FIELDS.get((item.type, part.get("type")))
                text = _build_unsent_text(item, text_field and text_field.key)
            if text is not None and not text.is_open:
                events += build_missing_text(text, part)
    if not item.own_text.is_open:
        events += build_missing_text(item.own_text, final)
    return events


def end_part(text: TextState, part: Json | None) -> list[Event]:
    """Ends a part, after the text and the citations that had no event. Returns no event if it has ended."""
    if not text.is_open or text.part_index is None:
        return []
    events = build_missing_text(text, part or {})
    annotations = [annotation for annotation in (part or {}).get("annotations") or () if isinstance(annotation, dict)]
    unsent = annotations[len(text.annotations) :]
    events += [Annotated(text.index, text.part_index, annotation) for annotation in unsent]
    text.annotations += unsent
    text.is_open = False
    whole = None if part is None else keep_streamed_text(text, remove_nulls(part))
    return [*events, PartEnded(text.index, text.part_index, whole)]


def remove_nulls(whole: Json) -> Json:
    """Returns an item or a part without the nulls that strict readers refuse, and with the lists that they require."""
    trimmed = {key: value for key, value in whole.items() if value is not None or key not in _OMIT_IF_NULL}
    for key in ("annotations", "logprobs"):
        if not isinstance(trimmed.get(key), _OPTIONAL_LIST):
            raise TypeError("annotations or logprobs are not a list")
    trimmed |= find_missing_lists(trimmed.get("type"), trimmed)
    if parts := list_parts(trimmed, "content"):
        trimmed["content"] = [remove_nulls(part) for part in parts]
    return trimmed
