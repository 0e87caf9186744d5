"""Reasoning as chat upstreams send it: one text in up to three fields, and blocks to be returned as they came."""

from collections.abc import Sequence
from typing import Final

from translation.representation.items import new_reasoning_text, new_summary_text
from translation.representation.json_types import Item, Json

_STREAMED_KEYS: Final = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""Type of a detail -> its key that streams in pieces. https://openrouter.ai/docs/use-cases/reasoning-tokens"""

_TEXT_KINDS: Final = {"reasoning.text": "reasoning", "reasoning.summary": "summary"}

REASONING_TEXT_FIELDS: Final = ("reasoning_content", "reasoning")
"""`reasoning_content` is DeepSeek and llama.cpp, `reasoning` vLLM, Ollama and OpenRouter, which sends the same text in
`reasoning_details`; some servers fill all of them."""

REASONING_FIELDS: Final = frozenset({*REASONING_TEXT_FIELDS, "reasoning_details"})
"""All that reasoning may be found in: a delta without any of them has none."""


def is_chat_detail(detail: object) -> bool:
    """Whether a detail is of this API. Others are what another upstream wants back, which this one would refuse."""
    return isinstance(detail, dict) and str(detail.get("type")).startswith("reasoning.")


class ReasoningReader:
    """Deltas or messages in, `(noun, text)` runs out; the noun is `reasoning` or `summary`.

    The first field that has text is the one that is read, to the end of the stream.
    """

    def __init__(self) -> None:
        self.details: list[tuple[Json, list[str]]] = []
        """The details since the last `take_details`, and what they have said in pieces."""
        self._source: str | None = None

    @property
    def has_reasoning(self) -> bool:
        """Whether any field has had reasoning."""
        return self._source is not None

    def claim_source(self, source: str) -> bool:
        """Whether reasoning found in `source` is to be read: nothing else had any before."""
        self._source = self._source or source
        return self._source == source

    def feed(self, delta: Json) -> list[tuple[str, str]]:
        """The reasoning a delta or message adds."""
        listed = delta.get("reasoning_details")
        details = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
        for detail in details:
            self._add_detail(detail)
        runs = _text_runs(details)
        if self._source is None:
            self._source = _choose_source(delta, runs)
        if self._source == "reasoning_details":
            return runs
        text = delta.get(self._source) if self._source in REASONING_TEXT_FIELDS else None
        return [("reasoning", text)] if isinstance(text, str) and text else []

    def pop_details(self) -> list[Json]:
        """The `reasoning_details` since the last call, pieces put together, if the upstream needs them back.

        It does when one is signed or encrypted; else the text says it all.
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


def build_reasoning_item(start: Item, runs: Sequence[tuple[str, Sequence[str]]]) -> Item:
    """Returns the item with its parts, added up from runs: their kind, and their texts in pieces."""
    whole = {**start, "summary": [], "content": []}
    for noun, texts in runs:
        if noun == "summary":
            whole["summary"].append({**new_summary_text(), "text": "".join(texts)})
        else:
            whole["content"].append({**new_reasoning_text(), "text": "".join(texts)})
    return whole


def _text_key(detail: Json) -> str | None:
    kind = detail.get("type")
    return _STREAMED_KEYS.get(kind) if isinstance(kind, str) else None


def _text_runs(details: list[Json]) -> list[tuple[str, str]]:
    found = ((_TEXT_KINDS[detail["type"]], detail.get(key)) for detail in details if (key := _text_key(detail)))
    return [(noun, text) for noun, text in found if isinstance(text, str) and text]


def _choose_source(delta: Json, runs: list[tuple[str, str]]) -> str | None:
    # The plain field has a summary's text too, but not that it is one.
    if any(noun == "summary" for noun, _ in runs):
        return "reasoning_details"
    for field in REASONING_TEXT_FIELDS:
        if (text := delta.get(field)) and isinstance(text, str):
            return field
    return "reasoning_details" if runs else None
