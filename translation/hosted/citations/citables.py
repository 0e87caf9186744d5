"""What an answer can cite: a page of the web, or a file. Each kind has its own text in the answer and annotation.

A new kind is a subclass of `Citable` with a row in `_READERS`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from translation.representation.json_types import Json

_LINK_ESCAPES: Final = {ord(char): f"%{ord(char):02X}" for char in "()<>[]\"'\\`| "}
"""Characters that would end a link of Markdown, or the JSON text that it may be written in."""


class Citable(ABC):
    """Something that an answer can cite. It never changes, and equal ones are the same."""

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

    @abstractmethod
    def to_json(self) -> Json:
        """Returns it as JSON, which `read_citable` reads."""


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


_READERS: Final[Mapping[str, tuple[Callable[[str, str], Citable], str, str]]] = {
    "page": (CitablePage, "url", "title"),
    "file": (CitableFile, "file_id", "filename"),
}
"""The `type` of a citable as JSON -> its class, and the keys of its two texts."""


def read_citable(saved: Any) -> Citable | None:
    """Returns what `to_json` wrote; None for anything else."""
    if not isinstance(saved, dict) or (reader := _READERS.get(str(saved.get("type")))) is None:
        return None
    build, *keys = reader
    first, second = (saved.get(key) for key in keys)
    return build(first, second) if isinstance(first, str) and isinstance(second, str) else None


def _escape_link(url: str) -> str:
    return url.translate(_LINK_ESCAPES)


def find_host(url: str) -> str | None:
    """Returns the host of a URL in lower case, without `www.`; None if it has none."""
    try:
        host = urlsplit(url).hostname
    except ValueError:
        return None
    return host.removeprefix("www.") if host else None
