"""Separates reasoning between think tags from the text around it."""

import re
from functools import cache
from typing import Final

from translation.text_forms import CLOSING_TAG_OF

_TAG_STARTS: Final = ("<", "[")

_ALL_TAGS: Final = (*CLOSING_TAG_OF, *CLOSING_TAG_OF.values())
_MAX_TAG_LENGTH: Final = max(map(len, _ALL_TAGS))


class ThinkParser:
    """Splits text into segments `(kind, text)`; the kind is `text` or `reasoning`. Tags of either case are removed.

    A tag may be cut anywhere: only text that could still become a tag is held back. Any closing tag ends reasoning that
    the chat template opened (`open_at_start`); other reasoning ends with the closing tag of its opening tag. An opening
    tag inside reasoning opens nothing, because models repeat the template's tag and close it once. A closing tag
    outside reasoning is removed. Reasoning without a closing tag goes on to the end of the text.

    If it is not known whether the template opened a tag (`open_at_start` is None), all text before the first tag is
    held back: before a closing tag it is reasoning, otherwise text.
    """

    def __init__(self, *, open_at_start: bool | None = False) -> None:
        self._pending = ""
        self._in_reasoning = bool(open_at_start)
        self._undecided: list[str] | None = [] if open_at_start is None else None
        """The text before the first tag, as long as its kind is not known. None: it is known."""
        self._tags: tuple[str, ...] = _ALL_TAGS
        self._pattern = _compile_tags(_ALL_TAGS)

    def feed(self, text: str) -> list[tuple[str, str]]:
        """Adds text. Returns the segments that it completes."""
        text = self._pending + text
        segments: list[tuple[str, str]] = []
        if "<" not in text and "[" not in text:
            self._pending = ""
            self._append_segment(segments, text)
            return segments
        at = 0
        while (tag := self._pattern.search(text, at)) is not None:
            self._append_segment(segments, text[at : tag.start()])
            self._apply_tag(tag[0].lower(), segments)
            at = tag.end()
        text = text[at:]
        keep = _partial_tag_length(text, self._tags)
        self._pending = text[len(text) - keep :]
        self._append_segment(segments, text[: len(text) - keep])
        return segments

    def release(self) -> list[tuple[str, str]]:
        """Returns the text before the first tag that was held back, as text, because what follows is no reasoning."""
        segments: list[tuple[str, str]] = []
        self._decide(segments)
        return segments

    def finish(self) -> list[tuple[str, str]]:
        """Ends the text. Returns the text that was held back, because it is no tag."""
        segments = self.release()
        pending, self._pending = self._pending, ""
        self._append_segment(segments, pending)
        return segments

    @property
    def in_reasoning(self) -> bool:
        """Whether the next text is reasoning."""
        return self._in_reasoning

    @property
    def _text_kind(self) -> str:
        return "reasoning" if self._in_reasoning else "text"

    def _append_segment(self, segments: list[tuple[str, str]], text: str) -> None:
        if self._undecided is not None:
            self._undecided.append(text)
        elif text:
            segments.append((self._text_kind, text))

    def _decide(self, segments: list[tuple[str, str]]) -> None:
        """Appends the text before the first tag, of the kind that is now known."""
        text, self._undecided = "".join(self._undecided or ()), None
        self._append_segment(segments, text)

    def _apply_tag(self, tag: str, segments: list[tuple[str, str]]) -> None:
        closing = CLOSING_TAG_OF.get(tag)
        if self._undecided is not None:
            self._in_reasoning = closing is None
            self._decide(segments)
        if closing is None:
            self._in_reasoning = False
            self._expect_tags(_ALL_TAGS)
        elif not self._in_reasoning:
            self._in_reasoning = True
            self._expect_tags((tag, closing))

    def _expect_tags(self, tags: tuple[str, ...]) -> None:
        self._tags = tags
        self._pattern = _compile_tags(tags)


@cache
def _compile_tags(tags: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, tags)), re.IGNORECASE | re.ASCII)


def _partial_tag_length(text: str, tags: tuple[str, ...]) -> int:
    """Returns how many characters at the end of the text could be the beginning of a tag."""
    start = max(map(text.rfind, _TAG_STARTS))
    if start == -1 or len(text) - start > _MAX_TAG_LENGTH:
        return 0
    rest = text[start:].lower()
    if not any(tag.startswith(rest) for tag in tags):
        return 0
    return len(text) - start
