"""Separates reasoning between think tags at the beginning of a text, and nowhere else."""

import re
from typing import Final

from translation.text_forms import CLOSING_TAG_OF

_OPENING_TAG: Final = re.compile(rf"\s*({'|'.join(map(re.escape, CLOSING_TAG_OF))})", re.IGNORECASE | re.ASCII)


_ANY_TAG: Final = re.compile(
    "|".join(map(re.escape, (*CLOSING_TAG_OF, *CLOSING_TAG_OF.values()))), re.IGNORECASE | re.ASCII
)
_OPENING_TAG_OF: Final = {closing: opening for opening, closing in CLOSING_TAG_OF.items()}


def add_opening_tag(text: str) -> str:
    """Returns a whole text with the think tag that its first closing tag closes, if the chat template wrote that one.

    A text whose first tag is an opening tag, or that has none, is returned unchanged.
    """
    tag = _ANY_TAG.search(text)
    return text if tag is None else _OPENING_TAG_OF.get(tag[0].lower(), "") + text


class LeadingThinkParser:
    """Splits text into segments `(kind, text)`; the kind is `reasoning` or `text`. Both tags are removed.

    A text that begins with an opening tag begins with reasoning, which ends with the closing tag of the same name, or
    with the text. A tag may be cut anywhere: only text that could still become one is held back.
    """

    def __init__(self) -> None:
        self.is_over = False
        """Whether all further text is returned unchanged."""
        self._blanks: list[str] = []
        """White space at the beginning of the text, before anything else."""
        self._pending = ""
        self._closing_tag: str | None = None
        """The tag that ends the reasoning, in lower case; None before the opening tag."""

    def feed(self, text: str) -> list[tuple[str, str]]:
        """Adds text. Returns the segments that it completes."""
        if self.is_over:
            return [("text", text)]
        if self._closing_tag is None and not self._pending and not text.strip():
            self._blanks.append(text)
            return []
        text = "".join((*self._blanks, self._pending, text))
        self._blanks, self._pending = [], ""
        if self._closing_tag is None:
            opening = _OPENING_TAG.match(text)
            if opening is None:
                return self._pass_or_hold(text)
            self._closing_tag = CLOSING_TAG_OF[opening[1].lower()]
            text = text[opening.end() :]
        return self._split_reasoning(text, self._closing_tag)

    def finish(self) -> list[tuple[str, str]]:
        """Ends the text. Returns the text that was held back, because it is no tag."""
        pending = "".join((*self._blanks, self._pending))
        self._blanks, self._pending = [], ""
        kind = "text" if self._closing_tag is None else "reasoning"
        return [(kind, pending)] if pending else []

    def _pass_or_hold(self, text: str) -> list[tuple[str, str]]:
        """Returns a text without an opening tag, unless it may still become one."""
        beginning = text.lstrip().lower()
        if any(tag.startswith(beginning) for tag in CLOSING_TAG_OF):
            self._pending = text
            return []
        self.is_over = True
        return [("text", text)]

    def _split_reasoning(self, text: str, closing_tag: str) -> list[tuple[str, str]]:
        closing = re.search(re.escape(closing_tag), text, re.IGNORECASE | re.ASCII)
        if closing is None:
            end = len(text) - _partial_length(text, closing_tag)
            self._pending = text[end:]
            return [("reasoning", text[:end])] if end else []
        self.is_over = True
        segments = (("reasoning", text[: closing.start()]), ("text", text[closing.end() :]))
        return [segment for segment in segments if segment[1]]


def _partial_length(text: str, tag: str) -> int:
    """Returns how many characters at the end of the text could be the beginning of the tag."""
    start = text.rfind(tag[0])
    return len(text) - start if start >= 0 and tag.startswith(text[start:].lower()) else 0
