"""Separates reasoning between think tags from the text around it."""

import re
from typing import Final

_TAG_NAMES: Final = ("think", "thinking", "reasoning", "thought")
_CLOSING_TAG_OF: Final = {f"<{name}>": f"</{name}>" for name in _TAG_NAMES}
"""Opening tag -> its closing tag."""

_ALL_TAGS: Final = (*_CLOSING_TAG_OF, *_CLOSING_TAG_OF.values())


class ThinkParser:
    """Splits text into runs `(kind, text)`; the kind is `text` or `reasoning`. Tags are removed.

    A tag may be cut anywhere: only text that could still become a tag is held back. Any closing tag ends reasoning that
    the chat template opened (`open_at_start`); other reasoning ends with the closing tag of its opening tag. An opening
    tag inside reasoning opens nothing, because models repeat the template's tag and close it once. A closing tag
    outside reasoning is removed. Reasoning without a closing tag goes on to the end of the text.
    """

    def __init__(self, *, open_at_start: bool = False) -> None:
        self._pending = ""
        self._in_reasoning = open_at_start
        self._tags: tuple[str, ...] = _ALL_TAGS
        self._pattern = _compile_tags(_ALL_TAGS)

    def feed(self, text: str) -> list[tuple[str, str]]:
        """Adds text. Returns the runs that it completes."""
        text = self._pending + text
        if "<" not in text:
            return [(self._text_kind, text)] if text else []
        runs: list[tuple[str, str]] = []
        while (tag := self._pattern.search(text)) is not None:
            if before := text[: tag.start()]:
                runs.append((self._text_kind, before))
            self._apply_tag(tag[0])
            text = text[tag.end() :]
        keep = _partial_tag_length(text, self._tags)
        self._pending = text[len(text) - keep :]
        if text := text[: len(text) - keep]:
            runs.append((self._text_kind, text))
        return runs

    def finish(self) -> list[tuple[str, str]]:
        """Ends the text. Returns the text that was held back, because it is no tag."""
        pending, self._pending = self._pending, ""
        return [(self._text_kind, pending)] if pending else []

    @property
    def in_reasoning(self) -> bool:
        """Whether the next text is reasoning."""
        return self._in_reasoning

    @property
    def _text_kind(self) -> str:
        return "reasoning" if self._in_reasoning else "text"

    def _apply_tag(self, tag: str) -> None:
        closing = _CLOSING_TAG_OF.get(tag)
        if closing is None:
            self._in_reasoning = False
            self._expect_tags(_ALL_TAGS)
        elif not self._in_reasoning:
            self._in_reasoning = True
            self._expect_tags((tag, closing))

    def _expect_tags(self, tags: tuple[str, ...]) -> None:
        self._tags = tags
        self._pattern = _compile_tags(tags)


def _compile_tags(tags: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, tags)))  # cached by `re`, as there are only a few patterns


def _partial_tag_length(text: str, tags: tuple[str, ...]) -> int:
    """Returns how many characters at the end of the text could be the beginning of a tag."""
    start = text.rfind("<")
    if start == -1 or not any(tag.startswith(text[start:]) for tag in tags):
        return 0
    return len(text) - start
