"""Finds out what kind of file some bytes are, and returns their text."""

import encodings
import importlib
import io
import pkgutil
import re
from contextlib import suppress
from typing import Final

import pypdf
from pypdf.errors import DependencyError, FileNotDecryptedError, PyPdfError

from gateway.retrieval.html_text import read_html_file
from gateway.retrieval.parsing.office import read_office
from gateway.retrieval.parsing.parsed_text import ParsingBounds, UnreadableFile
from gateway.retrieval.parsing.plain_text import decode_text, read_json_text

_HTML: Final = re.compile(r"\s*(<!--.*?-->\s*)?<(!doctype html|html|head|body)\b", re.IGNORECASE | re.DOTALL)
_HTML_NAMES: Final = (".html", ".htm", ".xhtml")
_JSON_NAMES: Final = (".json", ".jsonl", ".ndjson")
_OFFICE_NAMES: Final = (".docx", ".pptx", ".xlsx")

_SURROGATES: Final = re.compile("[\ud800-\udfff]")


def read_text(content: bytes, name: str, bounds: ParsingBounds) -> str:
    """Returns the text of a file. Its content says what kind it is; only if that says nothing, its name does.

    Raises UnreadableFile if there is no text in it, or more than `bounds.characters`.
    """
    if not content:
        raise UnreadableFile("invalid_file", "The file is empty.")
    text = _read_any(content, name.lower(), bounds).replace("\0", "")
    text = _SURROGATES.sub("\ufffd", text)
    if len(text) > bounds.characters:
        raise UnreadableFile("invalid_file", f"The file has more than {bounds.characters} characters.")
    if not any(character.isalnum() for character in text):
        raise UnreadableFile("unsupported_file", "The file has no text that can be read.")
    return text


def _read_any(content: bytes, name: str, bounds: ParsingBounds) -> str:
    if b"%PDF-" in content[:1024]:
        return _read_pdf(content, bounds.characters)
    if content.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        if (text := read_office(content)) is not None:
            return text
        raise UnreadableFile("unsupported_file", "The file is an archive, not a document: upload the files in it.")
    if name.endswith((".pdf", *_OFFICE_NAMES)):
        raise UnreadableFile("invalid_file", "The file is damaged: its content is not of the kind that its name says.")
    text = decode_text(content)
    if name.endswith(_JSON_NAMES):
        return read_json_text(text)
    if name.endswith(_HTML_NAMES) or _HTML.match(text[:2000]):
        return read_html_file(text)
    return text


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
