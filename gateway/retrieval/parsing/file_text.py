"""Finds out what kind of file some bytes are, and returns their text."""

import encodings
import importlib
import io
import pkgutil
import re
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final, NamedTuple

import pypdf
from pypdf.errors import DependencyError, FileNotDecryptedError, PyPdfError

from gateway.retrieval.html_text import read_html_file
from gateway.retrieval.parsing.office import find_archive_kind, read_office
from gateway.retrieval.parsing.parsed_text import ParsingBounds, UnreadableFile
from gateway.retrieval.parsing.plain_text import decode_text, read_json_text

_HTML: Final = re.compile(r"\s*(<!--.*?-->\s*)?<(!doctype html|html|head|body)\b", re.IGNORECASE | re.DOTALL)
_HTML_NAMES: Final = (".html", ".htm", ".xhtml")
_JSON_NAMES: Final = (".json", ".jsonl", ".ndjson")
_OFFICE_NAMES: Final = (".docx", ".pptx", ".xlsx")
_ENDING: Final = re.compile(r"\.[a-z0-9]{1,8}$")

_SURROGATES: Final = re.compile("[\ud800-\udfff]")


class DocumentReader(NamedTuple):
    """Reads files that are more than a text."""

    read: Callable[[bytes, str, ParsingBounds], str]
    """Returns the text of a document of a kind, which is written as the ending of a name, such as `.pdf`."""

    kinds: Collection[str] | None
    """The kinds that it reads; None for any."""

    def reads(self, kind: str) -> bool:
        """Whether it reads documents of a kind."""
        return bool(kind) and (self.kinds is None or kind in self.kinds)


def read_text(content: bytes, name: str, bounds: ParsingBounds, reader: DocumentReader | None = None) -> str:
    """Returns the text of a file. Its content says what kind it is; only if that says nothing, its name does.

    `reader` reads what is more than a text: by default the gateway does it itself. Raises UnreadableFile if there is no
    text in it, or more than `bounds.characters`.
    """
    if not content:
        raise UnreadableFile("invalid_file", "The file is empty.")
    return clean_text(_read_any(content, name.lower(), bounds, reader or OWN_READER), bounds)


def clean_text(text: str, bounds: ParsingBounds) -> str:
    """Returns a text without characters that cannot be stored. Raises UnreadableFile if it has no word, or is too
    long."""
    text = _SURROGATES.sub("\ufffd", text.replace("\0", ""))
    if len(text) > bounds.characters:
        raise UnreadableFile("invalid_file", f"The file has more than {bounds.characters} characters.")
    if not any(character.isalnum() for character in text):
        raise UnreadableFile("unsupported_file", "The file has no text that can be read.")
    return text


def _read_any(content: bytes, name: str, bounds: ParsingBounds, reader: DocumentReader) -> str:
    if b"%PDF-" in content[:1024]:
        return reader.read(content, ".pdf", bounds)
    if content.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        kind = find_archive_kind(content)
        if not reader.reads(kind):
            raise UnreadableFile("unsupported_file", "The file is an archive, not a document: upload the files in it.")
        return reader.read(content, kind, bounds)
    if name.endswith((".pdf", *_OFFICE_NAMES)):
        raise UnreadableFile("invalid_file", "The file is damaged: its content is not of the kind that its name says.")
    try:
        text = decode_text(content)
    except UnreadableFile as fault:
        ending = _ENDING.search(name)
        kind = "" if ending is None else ending[0]
        if fault.code != "unsupported_file" or kind in _TEXT_NAMES or not reader.reads(kind):
            raise
        return reader.read(content, kind, bounds)
    if name.endswith(_JSON_NAMES):
        return read_json_text(text)
    if name.endswith(_HTML_NAMES) or _HTML.match(text[:2000]):
        return reader.read(text.encode("utf-8", "replace"), ".html", bounds)
    return text


_TEXT_NAMES: Final = frozenset({".txt", ".md", ".csv", ".log", *_HTML_NAMES, *_JSON_NAMES})
"""Files with these names have a text or are damaged: no other reader makes more of them."""


def _read_document(content: bytes, kind: str, bounds: ParsingBounds) -> str:
    if kind == ".pdf":
        return _read_pdf(content, bounds.characters)
    if kind == ".html":
        return read_html_file(content.decode("utf-8"))
    return read_office(content, kind)


OWN_READER: Final = DocumentReader(_read_document, frozenset({".pdf", ".html", *_OFFICE_NAMES}))


def _read_pdf(content: bytes, characters: int) -> str:
    pages: list[str] = []
    length = 0
    try:
        reader = pypdf.PdfReader(io.BytesIO(content))
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnreadableFile("invalid_file", "The file is encrypted: remove its password.")
        for page in reader.pages:
            pages.append(page.extract_text())
            length += len(pages[-1])
            if length > characters:
                break
    except (DependencyError, FileNotDecryptedError):
        raise UnreadableFile("invalid_file", "The file is encrypted: remove its password.") from None
    except (
        PyPdfError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        IndexError,
        AssertionError,
        RecursionError,
        OverflowError,
        ArithmeticError,
        NotImplementedError,
    ):
        raise UnreadableFile("invalid_file", "The file is damaged: it is not a PDF that can be read.") from None
    return "\n\n".join(pages)


def load_parsers() -> None:
    """Loads all that `read_text` imports late, here and in the libraries, so that it opens nothing later."""
    for package in (encodings, pypdf):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            with suppress(ImportError):  # those of other systems
                importlib.import_module(module.name)
