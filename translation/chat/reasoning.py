"""Finds reasoning in messages and deltas of chat: one text in several fields, and data that a later turn sends back.

Whoever reads these fields takes their names from here. A profile may add names (`reasoning_fields`).
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, TypeAlias, get_args

from translation.representation.items import new_reasoning_text, new_summary_text
from translation.representation.json_types import Item, Json
from translation.representation.profile import Profile

_STREAMED_KEYS: Final = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""Type of a detail -> its key that is streamed in pieces. https://openrouter.ai/docs/use-cases/reasoning-tokens"""

_TEXT_KINDS: Final = {"reasoning.text": "reasoning", "reasoning.summary": "summary"}

ReasoningTextField: TypeAlias = Literal["reasoning_content", "reasoning"]
REASONING_TEXT_FIELDS: Final[tuple[str, ...]] = get_args(ReasoningTextField)
"""DeepSeek and llama.cpp send `reasoning_content`. vLLM, Ollama and OpenRouter send `reasoning`, and OpenRouter also
the same text in `reasoning_details`. Some servers fill all of them."""

MESSAGE_FIELDS: Final = frozenset(
    [
        *("role", "name", "content", "refusal", "tool_calls", "tool_call_id", "function_call", "audio", "annotations"),
        "reasoning_details",
    ]
)
"""The other fields of messages and deltas. None of them can hold reasoning text."""

DETAILS_FIELD: Final = "reasoning_details"
PLAIN_FIELD_OF_DETAILS: Final = "reasoning"
"""The field for reasoning without details of upstreams that read `reasoning_details`."""

EXTRA_CONTENT: Final = "extra_content"
"""Opaque data of a call, which some chat upstreams need back: Google's has a signature of the thought. In the `details`
of a reasoning item it travels as other data of upstreams does: sealed, and back to its upstream only."""

_DETAIL_TYPE: Final = "chat.call"


def list_text_fields(configured: Sequence[str]) -> tuple[str, ...]:
    """Returns the fields that may hold reasoning text, in the order in which they are tried: `configured` ones first,
    which are those of a profile."""
    return tuple(dict.fromkeys((*configured, *REASONING_TEXT_FIELDS))) if configured else REASONING_TEXT_FIELDS


def find_replay_field(profile: Profile) -> str:
    """Returns the field or the form of past reasoning: a configured field, or else `replay_reasoning`."""
    if profile.reasoning_fields and profile.replay_reasoning in REASONING_TEXT_FIELDS:
        return profile.reasoning_fields[0]
    return profile.replay_reasoning


def find_reasoning_text(message: Json, fields: Sequence[str] = REASONING_TEXT_FIELDS) -> str | None:
    """Returns the reasoning text of a message or delta from the first of `fields` that has one.

    Upstreams that fill several fields send the same text in each.
    """
    for field in fields:
        if (text := message.get(field)) and isinstance(text, str):
            return text
    return None


def is_chat_detail(detail: object) -> bool:
    """Whether a detail belongs to this API. Details of other upstreams would be refused by a chat upstream."""
    return isinstance(detail, dict) and str(detail.get("type")).startswith("reasoning.")


def build_call_detail(call_id: str, extra_content: Json) -> Json:
    """Returns the detail with the data of one call. It holds no thought, so dropping it loses nothing."""
    return {"type": _DETAIL_TYPE, "call_id": call_id, EXTRA_CONTENT: extra_content, "thought": False}


def collect_call_data(items: Iterable[Item]) -> dict[str, Json]:
    """Returns call id -> `extra_content`, from the details of reasoning items. Other details are skipped."""
    data: dict[str, Json] = {}
    for item in items:
        details = item.get("details") if item.get("type") == "reasoning" else None
        for detail in details if isinstance(details, list) else ():
            match detail:
                case {"type": "chat.call", "call_id": str(call_id), "extra_content": dict(extra_content)}:
                    data[call_id] = extra_content
    return data


class ReasoningReader:
    """Turns deltas or messages into `(kind, text)` segments. The kind is `reasoning` or `summary`.

    The first of `text_fields` that has text is read until the end of the stream, and the other fields are ignored.
    """

    def __init__(self, text_fields: Sequence[str] = REASONING_TEXT_FIELDS) -> None:
        self.text_fields = text_fields
        self.details: list[tuple[Json, list[str]]] = []
        """The details since the last `pop_details`, each with the pieces of its streamed text."""
        self.segments: list[tuple[str, list[str]]] = []
        """The reasoning of the open item, as segments of (`reasoning` or `summary`, pieces of text)."""
        self._unsigned: dict[str, tuple[Json, list[str]]] = {}
        """The blocks that had no signature at `pop_details`, by type and index, each with the pieces of its text: the
        signature may follow after the first text of the answer."""
        self._open_blocks: dict[str, tuple[Json, list[str]]] = {}
        """The last entry of `details` for each block, by type and index."""
        self._source: str | None = None

    def claim_source(self, source: str) -> bool:
        """Makes `source` the field to read, unless another one is read already. Returns whether `source` is read."""
        self._source = self._source or source
        return self._source == source

    def feed(self, delta: Json) -> list[tuple[str, str]]:
        """Returns the segments of reasoning that a delta or message adds."""
        listed = delta.get(DETAILS_FIELD)
        details = [detail for detail in listed if isinstance(detail, dict)] if isinstance(listed, list) else []
        for detail in details:
            self._add_detail(detail)
        segments = _text_segments(details)
        if self._source is None:
            self._source = self._choose_source(delta, segments)
        if self._source == DETAILS_FIELD:
            return segments
        text = delta.get(self._source) if self._source and self._source in self.text_fields else None
        return [("reasoning", text)] if isinstance(text, str) and text else []

    def add_text(self, kind: str, text: str) -> None:
        """Adds a piece of text to the reasoning of the open item."""
        if not self.segments or self.segments[-1][0] != kind:
            self.segments.append((kind, []))
        self.segments[-1][1].append(text)

    def pop_segments(self) -> list[tuple[str, list[str]]]:
        """Returns the reasoning of the open item, which ends."""
        segments, self.segments = self.segments, []
        return segments

    def pop_details(self) -> list[Json]:
        """Returns the `reasoning_details` since the last call, with their pieces joined.

        The list is empty if the upstream does not need them back: the text is enough if none is signed or encrypted.
        If the signature of a text follows later, its detail has the text too.
        """
        details = [
            detail | {_STREAMED_KEYS[detail["type"]]: "".join(pieces)} if pieces else detail
            for detail, pieces in self.details
        ]
        for detail, pieces in self.details:
            if pieces and not detail.get("signature"):
                _, text = self._unsigned.setdefault(_identify_block(detail), (dict(detail), []))
                text += pieces
        self.details = []
        self._open_blocks = {}
        return details if any(detail.get("signature") or detail.get("data") for detail in details) else []

    def _choose_source(self, delta: Json, segments: list[tuple[str, str]]) -> str | None:
        # A plain field has the text of a summary too, but does not mark it as one.
        if any(kind == "summary" for kind, _ in segments):
            return DETAILS_FIELD
        for field in self.text_fields:
            if (text := delta.get(field)) and isinstance(text, str):
                return field
        return DETAILS_FIELD if segments else None

    def _add_detail(self, detail: Json) -> None:
        key = _text_key(detail)
        if key is None:
            self.details.append((detail, []))
            return
        block = _identify_block(detail)
        last, pieces = self.details[-1] if self.details else ({}, [])
        if _identify_block(last) != block:
            last, pieces = self._find_block(block, is_signature=bool(detail.get("signature") and not detail.get(key)))
        last |= {name: value for name, value in detail.items() if value is not None}
        if isinstance(piece := detail.get(key), str):
            pieces.append(piece)

    def _find_block(self, block: str, *, is_signature: bool) -> tuple[Json, list[str]]:
        """Returns the block that a detail continues which is not of the last one: a signature that of its text, because
        the upstream needs both back in one detail, and anything else a new one."""
        known = self._open_blocks.get(block)
        if is_signature and known is not None and not known[0].get("signature"):
            return known
        entry = self._unsigned.pop(block, ({}, [])) if is_signature else ({}, [])
        self._open_blocks[block] = entry
        self.details.append(entry)
        return entry


def remove_unsigned_copies(details: Sequence[Json]) -> list[Json]:
    """Returns the details of a message without texts that come again later, with their signature."""
    signed: set[tuple[str, Any]] = set()
    remaining: list[Json] = []
    for detail in reversed(details):
        key = _identify_block(detail), detail.get("text")
        if detail.get("type") == "reasoning.text" and isinstance(detail.get("text"), str):
            if not detail.get("signature") and key in signed:
                continue
            if detail.get("signature"):
                signed.add(key)
        remaining.append(detail)
    return remaining[::-1]


def build_reasoning_item(start: Item, segments: Sequence[tuple[str, Sequence[str]]]) -> Item:
    """Returns a reasoning item with parts built from segments: their kind, and their texts in pieces.

    `start` is the item as it was opened.
    """
    item = {**start, "summary": [], "content": []}
    for kind, texts in segments:
        if kind == "summary":
            item["summary"].append({**new_summary_text(), "text": "".join(texts)})
        else:
            item["content"].append({**new_reasoning_text(), "text": "".join(texts)})
    return item


def _identify_block(detail: Json) -> str:
    """Returns what all pieces of one block of the upstream have in common."""
    return repr((detail.get("type"), detail.get("index")))


def _text_key(detail: Json) -> str | None:
    kind = detail.get("type")
    return _STREAMED_KEYS.get(kind) if isinstance(kind, str) else None


def _text_segments(details: list[Json]) -> list[tuple[str, str]]:
    segments = ((_TEXT_KINDS[detail["type"]], detail.get(key)) for detail in details if (key := _text_key(detail)))
    return [(kind, text) for kind, text in segments if isinstance(text, str) and text]
