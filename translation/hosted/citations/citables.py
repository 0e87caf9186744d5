"""What the numbers of markers stand for: a page of the web, a file, or what a browser showed of a page.

A new kind is a subclass of `MarkedSource` with a row in `_READERS`. What an answer can cite is a `Citable`, and has its
own text in the answer and its own annotation.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple, TypeGuard
from urllib.parse import urlsplit

from translation.representation.json_types import Json

_LINK_ESCAPES: Final = {ord(char): f"%{ord(char):02X}" for char in "()<>[]\"'\\`| "}
"""Characters that would end a link of Markdown, or the JSON text that it may be written in."""


MAX_URL_CHARS: Final = 4_000
"""The longest URL that is cited: it is repeated for each citation."""

MAX_NAME_CHARS: Final = MAX_URL_CHARS
"""The longest title or name of a file that is cited. A page without a title has its URL instead."""

_MAX_LINKS: Final = 100
"""The most links of a view that are read from what was saved."""


class LineRange(NamedTuple):
    """The lines that a marker names, both included."""

    first: int
    last: int


class MarkedSource(ABC):
    """What the number of a marker stands for. It never changes, and equal ones are the same."""

    @property
    @abstractmethod
    def citables(self) -> Sequence["Citable"]:
        """Everything that a marker with this number can cite."""

    @abstractmethod
    def find_citable(self, lines: LineRange | None) -> "Citable | None":
        """Returns what a marker cites that names these lines, or none; None if it does not say which."""

    @abstractmethod
    def to_json(self) -> Json:
        """Returns it as JSON, which `read_source` reads."""


class Citable(MarkedSource):
    """Something that an answer can cite, whatever lines of it a marker names."""

    @property
    def citables(self) -> Sequence["Citable"]:
        return (self,)

    def find_citable(self, lines: LineRange | None) -> "Citable | None":
        return self

    @property
    def link_urls(self) -> Collection[str]:
        """The URLs by which links of Markdown cite it too; none if only markers do."""
        return ()

    @abstractmethod
    def write_text(self) -> str:
        """Returns the text of the answer that replaces a marker; empty if the marker is left out."""

    @abstractmethod
    def build_annotation(self, start: int, end: int) -> Json:
        """Returns the annotation of a text. The code points from `start` to `end`, exclusive, are the citation."""


@dataclass(frozen=True, slots=True)
class CitablePage(Citable):
    """A page of the web. `url` has the form in which the page was found."""

    url: str
    title: str

    @property
    def link_urls(self) -> Collection[str]:
        return {self.url, _escape_link(self.url)}

    def write_text(self) -> str:
        return f"([{find_host(self.url) or 'link'}]({_escape_link(self.url)}))"

    def build_annotation(self, start: int, end: int) -> Json:
        return {
            "type": "url_citation",
            "url": self.url,
            "title": self.title,
            "start_index": start,
            "end_index": end,
        }

    def to_json(self) -> Json:
        return {"type": "page", "url": self.url, "title": self.title}


@dataclass(frozen=True, slots=True)
class CitableFile(Citable):
    """A file of a vector store. A citation of it is a place in the text, where its marker was."""

    file_id: str
    filename: str

    def write_text(self) -> str:
        return ""

    def build_annotation(self, start: int, end: int) -> Json:
        return {"type": "file_citation", "file_id": self.file_id, "filename": self.filename, "index": start}

    def to_json(self) -> Json:
        return {"type": "file", "file_id": self.file_id, "filename": self.filename}


@dataclass(frozen=True, slots=True)
class ViewLink:
    """A link that a browser showed, from the line `line` of the view on. It leads to the line `target` of its page."""

    line: int
    url: str
    title: str
    target: int = 0


@dataclass(frozen=True, slots=True)
class BrowserView(MarkedSource):
    """What a browser showed: a part of the page at `url`, or the results of a search, which have an empty `url`.

    A marker in a page cites the page. In a list of results it cites the result at the lines that it names.
    """

    url: str
    title: str
    links: tuple[ViewLink, ...] = ()

    @property
    def citables(self) -> Sequence[Citable]:
        return [CitablePage(self.url, self.title)] if self.url else [CitablePage(*each) for each in self._pages]

    def find_citable(self, lines: LineRange | None) -> Citable | None:
        if self.url:
            return CitablePage(self.url, self.title)
        if lines is None:
            return CitablePage(*self._pages[0]) if len(self._pages) == 1 else None
        # A result reaches up to the next one. Lines that begin above the first result may reach into it.
        before = [link for link in self.links if link.line <= lines.first]
        within = [link for link in self.links if lines.first < link.line <= lines.last]
        link = before[-1] if before else within[0] if within else None
        return None if link is None else CitablePage(link.url, link.title)

    def to_json(self) -> Json:
        links = [asdict(link) for link in self.links]
        return {"type": "view", "url": self.url, "title": self.title, "links": links}

    @property
    def _pages(self) -> Sequence[tuple[str, str]]:
        return [(each.url, each.title) for each in self.links]


def read_source(saved: Any) -> MarkedSource | None:
    """Returns what `to_json` wrote; None for anything else."""
    read = _READERS.get(str(saved.get("type"))) if isinstance(saved, dict) else None
    return None if read is None else read(saved)


def _read_page(saved: Json) -> MarkedSource | None:
    url, title = saved.get("url"), saved.get("title")
    if not (_is_url(url) and isinstance(title, str)):
        return None
    return CitablePage(url, title[:MAX_NAME_CHARS])


def _read_file(saved: Json) -> MarkedSource | None:
    file_id, filename = saved.get("file_id"), saved.get("filename")
    if not (isinstance(file_id, str) and len(file_id) <= MAX_NAME_CHARS and isinstance(filename, str)):
        return None
    return CitableFile(file_id, filename[:MAX_NAME_CHARS])


def _read_view(saved: Json) -> MarkedSource | None:
    url, title, links = saved.get("url"), saved.get("title"), saved.get("links")
    if not (_is_url(url) and isinstance(title, str) and isinstance(links, list)):
        return None
    read = [_read_link(each) for each in links[:_MAX_LINKS]]
    known = tuple(link for link in read if link is not None)
    # A model names a link by its place, so that one that is left out would give its place to the next.
    return BrowserView(url, title[:MAX_NAME_CHARS], known) if len(known) == len(read) else None


def _read_link(saved: Any) -> ViewLink | None:
    if not isinstance(saved, dict):
        return None
    line, url, title, target = (saved.get(key) for key in ("line", "url", "title", "target"))
    if type(line) is int and type(target) is int and _is_url(url) and isinstance(title, str):
        return ViewLink(line, url, title[:MAX_NAME_CHARS], target)
    return None


def _is_url(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and len(value) <= MAX_URL_CHARS


_READERS: Final[Mapping[str, Callable[[Json], MarkedSource | None]]] = {
    "page": _read_page,
    "file": _read_file,
    "view": _read_view,
}
"""The `type` of a source as JSON -> its reader."""


def _escape_link(url: str) -> str:
    return url.translate(_LINK_ESCAPES)


def find_host(url: str) -> str | None:
    """Returns the host of a URL in lower case, without `www.`; None if it has none."""
    try:
        host = urlsplit(url).hostname
    except ValueError:
        return None
    return host.removeprefix("www.") if host else None
