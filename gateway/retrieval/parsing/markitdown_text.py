"""Reads documents with MarkItDown, as Markdown. Only the parser server imports it, and only if it is configured.

Only its converters are used, each for the kind that the gateway found: the class `MarkItDown` would guess the kind with
a neural network, whose threads do not survive the fork of a child.
"""

import importlib
import io
import mimetypes
import pkgutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import pdfminer
from markitdown import DocumentConverter, StreamInfo
from markitdown.converters import (
    DocxConverter,
    EpubConverter,
    HtmlConverter,
    OutlookMsgConverter,
    PdfConverter,
    PptxConverter,
    XlsConverter,
    XlsxConverter,
)
from pdfminer.cmapdb import CMapDB
from pdfminer.pdfdocument import PDFPasswordIncorrect

from gateway.retrieval.html_text import read_html_file
from gateway.retrieval.parsing.file_text import DocumentReader
from gateway.retrieval.parsing.office import check_archive
from gateway.retrieval.parsing.parsed_text import ParsingBounds, UnreadableFile

_CONVERTERS: Final[Mapping[str, type[DocumentConverter]]] = {
    ".pdf": PdfConverter,
    ".docx": DocxConverter,
    ".pptx": PptxConverter,
    ".xlsx": XlsxConverter,
    ".xls": XlsConverter,
    ".msg": OutlookMsgConverter,
    ".epub": EpubConverter,
    ".html": HtmlConverter,
}

_ARCHIVES: Final = frozenset({".docx", ".pptx", ".xlsx", ".epub"})

_LATE_PACKAGES: Final = (
    "bs4",
    "mammoth",
    "markdownify",
    "olefile",
    "openpyxl",
    "pandas.io",
    "pdfminer",
    "pdfplumber",
    "pptx",
    "xlrd",
)
"""Packages that import some of their modules when they first need them."""

_CHARACTER_MAPS: Final = ".json.gz"
_UNICODE_MAPS: Final = "to-unicode-"


def _read_document(content: bytes, kind: str, bounds: ParsingBounds) -> str:
    if kind in _ARCHIVES:
        check_archive(content)
    info = StreamInfo(extension=kind, charset="utf-8" if kind == ".html" else None)
    try:
        return _CONVERTERS[kind]().convert(io.BytesIO(content), info).markdown
    except MemoryError:
        raise
    except PDFPasswordIncorrect:
        raise UnreadableFile("invalid_file", "The file is encrypted: remove its password.") from None
    except RecursionError:
        if kind != ".html":
            raise UnreadableFile("invalid_file", "The file is nested too deep to be read.") from None
        return read_html_file(content.decode())
    except Exception:  # the libraries below it raise whatever a damaged file makes them raise
        raise UnreadableFile("invalid_file", "The file is damaged: it cannot be converted.") from None


MARKITDOWN_READER: Final = DocumentReader(_read_document, frozenset(_CONVERTERS))


def load_converters() -> None:
    """Loads all that the converters load when they first need it, because a child may open no file."""
    mimetypes.init()
    for name in _LATE_PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(getattr(package, "__path__", ()), f"{name}."):
            with suppress(Exception):  # modules for packages and systems that are not there
                importlib.import_module(module.name)
    for path in Path(pdfminer.__file__).parent.joinpath("cmap").glob(f"*{_CHARACTER_MAPS}"):
        name = path.name.removesuffix(_CHARACTER_MAPS)
        if name.startswith(_UNICODE_MAPS):
            CMapDB.get_unicode_map(name.removeprefix(_UNICODE_MAPS))
        else:
            CMapDB.get_cmap(name)
