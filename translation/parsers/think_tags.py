"""Reasoning that comes as text between think tags."""

import re
from typing import Final

_NAMES: Final = ("think", "thinking", "reasoning", "thought")
_OPENING: Final = {f"<{name}>": f"</{name}>" for name in _NAMES}
"""Opening tag -> the one that closes it."""

_ALL: Final = (*_OPENING, *_OPENING.values())


class ThinkParser:
    """Text in, `(noun, text)` runs out, the noun being `text` or `reasoning`; tags are taken out.

    A tag may be cut anywhere: what could still become one is held back, and nothing more. Any closing tag ends
    reasoning that the chat template opened (`open_at_start`); otherwise it is the one that belongs to the opening tag.
    An opening tag inside reasoning opens nothing, because models repeat the template's tag and close it once. A closing
    tag outside reasoning is taken out. Reasoning that is never closed goes on to the end.
    """

    def __init__(self, *, open_at_start: bool = False) -> None:
        self._held = ""
        self._reasoning = open_at_start
        self._tags: tuple[str, ...] = _ALL
        self._pattern = _pattern(_ALL)

    def feed(self, text: str) -> list[tuple[str, str]]:
        """Take a piece of text, return the runs it completes."""
        text = self._held + text
        if "<" not in text:
            return [(self._noun, text)] if text else []
        runs: list[tuple[str, str]] = []
        while (tag := self._pattern.search(text)) is not None:
            if before := text[: tag.start()]:
                runs.append((self._noun, before))
            self._pass(tag[0])
            text = text[tag.end() :]
        keep = _begun_tag(text, self._tags)
        self._held = text[len(text) - keep :]
        if text := text[: len(text) - keep]:
            runs.append((self._noun, text))
        return runs

    def finish(self) -> list[tuple[str, str]]:
        """The text is complete: what was held back is no tag."""
        held, self._held = self._held, ""
        return [(self._noun, held)] if held else []

    @property
    def inside(self) -> bool:
        """Whether text would be reasoning now."""
        return self._reasoning

    @property
    def _noun(self) -> str:
        return "reasoning" if self._reasoning else "text"

    def _pass(self, tag: str) -> None:
        closing = _OPENING.get(tag)
        if closing is None:
            self._reasoning = False
            self._watch(_ALL)
        elif not self._reasoning:
            self._reasoning = True
            self._watch((tag, closing))

    def _watch(self, tags: tuple[str, ...]) -> None:
        self._tags = tags
        self._pattern = _pattern(tags)


def _pattern(tags: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, tags)))  # `re` keeps the few there are compiled


def _begun_tag(text: str, tags: tuple[str, ...]) -> int:
    """How many characters at the end could be the beginning of a tag."""
    start = text.rfind("<")
    if start == -1 or not any(tag.startswith(text[start:]) for tag in tags):
        return 0
    return len(text) - start
