"""Reads reasoning from chat upstreams: one text in up to three fields, and details that a later turn sends back.

Does not know which field a client expects.
"""

from collections.abc import Sequence
from typing import Final

from translation.representation.items import new_reasoning_text, new_summary_text
from translation.representation.json_types import Item, Json

_STREAMED_KEYS: Final = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""Type of a detail -> its key that is streamed in pieces. https://openrouter.ai/docs/use-cases/reasoning-tokens"""

_TEXT_KINDS: Final = {"reasoning.text": "reasoning", "reasoning.summary": "summary"}

REASONING_TEXT_FIELDS: Final = ("reasoning_content", "reasoning")
"""DeepSeek and llama.cpp send `reasoning_content`. vLLM, Ollama and OpenRouter send `reasoning`, and OpenRouter also
the same text in `reasoning_details`. Some servers fill all of them."""

REASONING_FIELDS: Final = frozenset({*REASONING_TEXT_FIELDS, "reasoning_details"})
"""Every field that may hold reasoning. A delta without any of them has none."""


def is_chat_detail(detail: object) -> bool:
    """Whether a detail belongs to this API. Details of other upstreams would be refused by a chat upstream."""
    return isinstance(detail, dict) and str(detail.get("type")).startswith("reasoning.")


class ReasoningReader:
    """Turns deltas or messages into `(kind, text)` segments. The kind is `reasoning` or `summary`.

    The first field that has text is read until the end of the stream, and the other fields are ignored.
    """

    def __init__(self) -> None:
        self.details: list[tuple[Json, list[str]]] = []
        """The details since the last `pop_details`, each with the pieces of its streamed text."""
        self._source: str | None = None

    def claim_source(self, source: str) -> bool:
        """Makes `source` the field to read, unless another one is read already. Returns whether `source` is read."""
        self._source = self._source or source
        return self._source == source

    def feed(self, delta: Json) -> list[tuple[str, str]]:
        """Returns the segments of reasoning that a delta or message adds."""
        listed = delta.get("reasoning_details")
        details = [detail for detail in listed if isinstance(detail, dict)] if isinstance(listed, list) else []
        for detail in details:
            self._add_detail(detail)
        segments = _text_segments(details)
        if self._source is None:
            self._source = _choose_source(delta, segments)
        if self._source == "reasoning_details":
            return segments
        text = delta.get(self._source) if self._source in REASONING_TEXT_FIELDS else None
        return [("reasoning", text)] if isinstance(text, str) and text else []

    def pop_details(self) -> list[Json]:
        """Returns the `reasoning_details` since the last call, with their pieces joined.

        The list is empty if the upstream does not need them back: the text is enough if none is signed or encrypted.
        """
        details = [
            detail | {_STREAMED_KEYS[detail["type"]]: "".join(pieces)} if pieces else detail
            for detail, pieces in self.details
        ]
        self.details = []
        return details if any(detail.get("signature") or detail.get("data") for detail in details) else []

    def _add_detail(self, detail: Json) -> None:
        key = _text_key(detail)
        if key is None:
            self.details.append((detail, []))
            return
        last, pieces = self.details[-1] if self.details else ({}, [])
        if (last.get("type"), last.get("index")) != (detail["type"], detail.get("index")):
            last, pieces = {}, []
            self.details.append((last, pieces))
        last |= {name: value for name, value in detail.items() if value is not None}
        if isinstance(piece := detail.get(key), str):
            pieces.append(piece)


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


def _text_key(detail: Json) -> str | None:
    kind = detail.get("type")
    return _STREAMED_KEYS.get(kind) if isinstance(kind, str) else None


def _text_segments(details: list[Json]) -> list[tuple[str, str]]:
    segments = ((_TEXT_KINDS[detail["type"]], detail.get(key)) for detail in details if (key := _text_key(detail)))
    return [(kind, text) for kind, text in segments if isinstance(text, str) and text]


def _choose_source(delta: Json, segments: list[tuple[str, str]]) -> str | None:
    # A plain field has the text of a summary too, but does not mark it as one.
    if any(kind == "summary" for kind, _ in segments):
        return "reasoning_details"
    for field in REASONING_TEXT_FIELDS:
        if (text := delta.get(field)) and isinstance(text, str):
            return field
    return "reasoning_details" if segments else None
