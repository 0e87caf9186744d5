"""The text of HTML, of web pages and of files, by one pass over its characters. HTML that is made to be slow takes no
longer."""

import html
import math
import re
import sys
import time
from collections.abc import Set
from typing import Final, NamedTuple

_MAX_S: Final = 2.0
"""After this time the rest of a page is left out."""

_STEPS_PER_LOOK: Final = 1000
"""The clock is read once for this many tags."""

_HIDDEN_IN_FILES: Final = frozenset({"script", "style", "noscript", "template"})
"""Elements whose content is no text of a document."""

_HIDDEN_ON_PAGES: Final = _HIDDEN_IN_FILES | {"svg", "head", "title", "iframe", "object", "textarea"}
"""Elements whose content does not belong to the text of a web page. Its title is a value of its own."""

_RAW: Final = frozenset({"script", "style", "textarea", "title", "noscript", "iframe"})
"""Elements that end only at their own end tag, whatever is in them."""

_BLOCKS: Final = frozenset(
    {
        *("address", "article", "aside", "blockquote", "body", "br", "caption", "dd", "details", "dialog", "div"),
        *("dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6"),
        *("head", "header", "hr", "html", "legend", "li", "main", "menu", "nav", "ol", "option", "p", "pre"),
        *("section", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "title", "tr", "ul"),
    }
)
"""Elements that begin a line."""

_LONG_DIGITS: Final = 8
_LONG_NUMBER: Final = re.compile(r"&#([0-9]{8,});?")
"""A number of more digits than characters have. Python refuses to read one of more than 4,300."""

_NAME: Final = re.compile(r"/?([a-zA-Z][a-zA-Z0-9-]{0,30})")
_TAG_STOP: Final = re.compile(r"[>\"']")
_BLANKS: Final = re.compile(r"[ \t\r\f\v\xa0]+")
_LINE_BREAKS: Final = re.compile(r"(?<!\s)[^\S\n]*+\n\s*+")


class PageText(NamedTuple):
    """The text of a page. `is_whole` is false if the page has more."""

    title: str
    text: str
    is_whole: bool = True


def extract_html_text(source: str, max_chars: int) -> PageText:
    """Returns the title and the text of a web page, at most `max_chars` characters of it."""
    reader = _Reader(source, _HIDDEN_ON_PAGES, max_chars, max_s=_MAX_S)
    text = _LINE_BREAKS.sub("\n", _BLANKS.sub(" ", reader.read())).strip()
    return PageText(reader.title, text[:max_chars], reader.is_whole and len(text) <= max_chars)


def unescape_html(text: str) -> str:
    """Returns a text with its character references resolved. A number beyond Unicode is U+FFFD, however long it is."""
    return html.unescape(_LONG_NUMBER.sub(_shorten_number, text))


def _shorten_number(reference: re.Match[str]) -> str:
    digits = reference[1].lstrip("0")
    return f"&#{digits};" if 0 < len(digits) < _LONG_DIGITS else "\ufffd"


def read_html_file(source: str) -> str:
    """Returns the whole text of an HTML file, with its title, and with one empty line between blocks."""
    lines = [line.strip() for line in _Reader(source, _HIDDEN_IN_FILES).read().split("\n")]
    return "\n".join(line for i, line in enumerate(lines) if line or (i and lines[i - 1])).strip()


class _Reader:
    """Reads one page. Each position is visited once."""

    def __init__(
        self, source: str, hidden_names: Set[str], max_chars: int = sys.maxsize, max_s: float = math.inf
    ) -> None:
        self.title = ""
        self.is_whole = True
        self._source = source
        self._hidden_names = hidden_names
        self._max_chars = max_chars
        self._until = time.monotonic() + max_s
        self._pieces: list[str] = []
        self._length = 0
        self._hidden: list[str] = []
        """The names of open elements whose content is not shown, each once: the end tag of one closes all of its name,
        and what is open in them."""
        self._pre_depth = 0
        """The open `pre` elements: elsewhere a line break of the source is a blank."""

    def read(self) -> str:
        """Returns the text, with a line break at the beginning and end of each block."""
        source, position, steps = self._source, 0, 0
        while position < len(source):
            start = source.find("<", position)
            self._add(source[position : len(source) if start < 0 else start])
            if start < 0:
                break
            position = self._read_markup(start)
            steps += 1
            is_late = steps % _STEPS_PER_LOOK == 0 and time.monotonic() > self._until
            if is_late or self._length > self._max_chars:
                self.is_whole = False
                break
        return "".join(self._pieces)

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
            self._break_line()
        self._pre_depth += name == "pre"
        if source[end - 2 : end] != "/>" and name in self._hidden_names and name not in self._hidden:
            self._hidden.append(name)
        return self._read_raw(name, end) if name in _RAW else end

    def _read_raw(self, name: str, start: int) -> int:
        """Reads an element whose content is no markup. Returns the position of its end tag."""
        end_tag = re.compile(f"</{name}", re.IGNORECASE).search(self._source, start)
        end = len(self._source) if end_tag is None else end_tag.start()
        if name == "title" and not self.title:
            self.title = " ".join(unescape_html(self._source[start : min(end, start + 1000)]).split())[:200]
        self._add(self._source[start:end])
        return end

    def _close(self, name: str) -> None:
        if name in self._hidden:
            del self._hidden[self._hidden.index(name) :]
        elif name in _BLOCKS:
            self._break_line()
            if name == "pre" and self._pre_depth:
                self._pre_depth -= 1

    def _add(self, text: str) -> None:
        if text and not self._hidden:
            decoded = unescape_html(text) if "&" in text else text
            self._pieces.append(decoded if self._pre_depth else _join_blanks(decoded))
            self._length += len(text)

    def _break_line(self) -> None:
        if not self._hidden:
            self._pieces.append("\n")
            self._length += 1

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


def _join_blanks(text: str) -> str:
    """Returns a text with one blank for consecutive ones and for line breaks."""
    joined = " ".join(text.split())
    if not joined:
        return text[:1] and " "
    return f"{' ' * text[0].isspace()}{joined}{' ' * text[-1].isspace()}"
