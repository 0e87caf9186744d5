"""The text of an HTML page, by one pass over its characters. A page that is made to be slow takes no longer."""

import re
import time
from html import unescape
from typing import Final, NamedTuple

_MAX_S: Final = 2.0
"""After this time the rest of a page is left out."""

_STEPS_PER_LOOK: Final = 1000
"""The clock is read once for this many tags."""

_HIDDEN: Final = frozenset({"script", "style", "noscript", "template", "svg", "head", "iframe", "object", "textarea"})
"""Elements whose content is not shown. `title` is read inside of `head`."""

_RAW: Final = frozenset({"script", "style", "textarea", "title", "noscript", "iframe"})
"""Elements that end only at their own end tag, whatever is in them."""

_BLOCKS: Final = frozenset(
    {
        *("address", "article", "aside", "blockquote", "br", "caption", "dd", "details", "dialog", "div", "dl"),
        *("dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6"),
        *("header", "hr", "legend", "li", "main", "menu", "nav", "ol", "option", "p", "pre", "section"),
        *("summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul"),
    }
)
"""Elements that begin a line."""

_NAME: Final = re.compile(r"/?([a-zA-Z][a-zA-Z0-9-]{0,30})")
_TAG_STOP: Final = re.compile(r"[>\"']")
_BLANKS: Final = re.compile(r"[ \t\r\f\v\xa0]+")
_LINES: Final = re.compile(r"\s*\n\s*")


class PageText(NamedTuple):
    """The text of a page. `is_whole` is false if the page has more."""

    title: str
    text: str
    is_whole: bool = True


def extract_html_text(source: str, max_chars: int) -> PageText:
    """Returns the title and the text of a page, at most `max_chars` characters of it."""
    return _Reader(source, max_chars).read()


class _Reader:
    """Reads one page. Each position is visited once."""

    def __init__(self, source: str, max_chars: int) -> None:
        self._source = source
        self._max_chars = max_chars
        self._pieces: list[str] = []
        self._length = 0
        self._title = ""
        self._hidden: list[str] = []
        """The open elements whose content is not shown. One of them is closed by the end tag of any outer one."""

    def read(self) -> PageText:
        source, position, steps = self._source, 0, 0
        until = time.monotonic() + _MAX_S
        is_whole = True
        while position < len(source):
            start = source.find("<", position)
            self._add(source[position : len(source) if start < 0 else start])
            if start < 0:
                break
            position = self._read_markup(start)
            steps += 1
            is_late = steps % _STEPS_PER_LOOK == 0 and time.monotonic() > until
            if is_late or self._length > self._max_chars:
                is_whole = False
                break
        text = _LINES.sub("\n", _BLANKS.sub(" ", "".join(self._pieces))).strip()
        return PageText(self._title, text[: self._max_chars], is_whole and len(text) <= self._max_chars)

    def _read_markup(self, start: int) -> int:
        """Reads what begins with `<` at `start`. Returns the position behind it."""
        source = self._source
        if source.startswith("<!--", start):
            return self._find_behind("-->", start + 4)
        name_match = _NAME.match(source, start + 1)
        if name_match is None:
            if source[start + 1 : start + 2] in ("!", "?", "/"):
                return self._find_behind(">", start + 1)
            self._add("<")
            return start + 1
        name = name_match[1].lower()
        end = self._find_tag_end(name_match.end())
        if source[start + 1] == "/":
            self._close(name)
            return end
        if name == "body":  # the end of `head` may be left out
            self._hidden.clear()
        if name in _BLOCKS:
            self._add("\n")
        if source[end - 2 : end] != "/>" and name in _HIDDEN:
            self._hidden.append(name)
        return self._read_raw(name, end) if name in _RAW else end

    def _read_raw(self, name: str, start: int) -> int:
        """Reads an element whose content is no markup. Returns the position of its end tag."""
        end_tag = re.compile(f"</{name}", re.IGNORECASE).search(self._source, start)
        end = len(self._source) if end_tag is None else end_tag.start()
        if name == "title" and not self._title:
            self._title = " ".join(unescape(self._source[start : min(end, start + 1000)]).split())[:200]
        return end

    def _close(self, name: str) -> None:
        if name in self._hidden:
            del self._hidden[self._hidden.index(name) :]
        elif name in _BLOCKS:
            self._add("\n")

    def _add(self, text: str) -> None:
        if text and not self._hidden:
            self._pieces.append(unescape(text) if "&" in text else text)
            self._length += len(text)

    def _find_tag_end(self, position: int) -> int:
        """Returns the position behind a tag. A `>` in quotes does not end it; without an end it is the page's end."""
        source = self._source
        while (stop := _TAG_STOP.search(source, position)) is not None:
            if stop[0] == ">":
                return stop.end()
            position = stop.end()
            if source[max(position - 4, 0) : position - 1].rstrip().endswith("="):  # elsewhere it is an apostrophe
                closing = source.find(stop[0], position)
                position = position if closing < 0 else closing + 1
        return len(source)

    def _find_behind(self, mark: str, position: int) -> int:
        place = self._source.find(mark, position)
        return len(self._source) if place < 0 else place + len(mark)
