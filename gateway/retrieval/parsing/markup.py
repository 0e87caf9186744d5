"""Texts of HTML and JSON files."""

import json
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any, Final

_DROPPED: Final = frozenset({"script", "style", "noscript", "template"})
_BLOCK_NAMES: Final = """
    address article aside blockquote body br caption dd details dialog div dl dt fieldset figcaption figure footer form
    h1 h2 h3 h4 h5 h6 head header hr html legend li main nav ol option p pre section summary table tbody td tfoot th
    thead title tr ul
"""
_BLOCKS: Final = frozenset(_BLOCK_NAMES.split())


class _TextCollector(HTMLParser):
    """Collects the text of a page, with a line break around each block."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._dropped: str | None = None
        self._depth = 0
        self._is_preformatted = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._dropped is not None:
            self._depth += tag == self._dropped
        elif tag in _DROPPED:
            self._dropped, self._depth = tag, 1
        elif tag in _BLOCKS:
            self.parts.append("\n")
            self._is_preformatted += tag == "pre"

    def handle_endtag(self, tag: str) -> None:
        if self._dropped is not None:
            if tag == self._dropped:
                self._depth -= 1
                if not self._depth:
                    self._dropped = None
        elif tag in _BLOCKS:
            self.parts.append("\n")
            if tag == "pre" and self._is_preformatted:
                self._is_preformatted -= 1

    def handle_data(self, data: str) -> None:
        if self._dropped is None:
            self.parts.append(data if self._is_preformatted else _join_blanks(data))


def _join_blanks(data: str) -> str:
    joined = " ".join(data.split())
    if not joined:
        return " " if data else ""
    return f"{' ' if data[0].isspace() else ''}{joined}{' ' if data[-1].isspace() else ''}"


def read_html(markup: str) -> str:
    """Returns the text of an HTML page: entities decoded; no scripts, styles and comments; a line for each block."""
    collector = _TextCollector()
    collector.feed(markup)
    collector.close()
    lines = [" ".join(line.split(" ")).strip() for line in "".join(collector.parts).split("\n")]
    wanted = [line for i, line in enumerate(lines) if line or (i and lines[i - 1])]
    return "\n".join(wanted).strip()


def read_json_text(text: str) -> str:
    """Returns the text of a JSON file, or of one JSON value on each line, with escapes decoded.

    Returns the text as it is if it is not JSON, or is nested too deep.
    """
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=1)
    except (ValueError, RecursionError):
        pass
    try:
        return "\n".join(_decode_lines(text))
    except (ValueError, RecursionError):
        return text


def _decode_lines(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        value: Any = json.loads(line) if line.strip() else ""
        yield json.dumps(value, ensure_ascii=False) if line.strip() else ""
