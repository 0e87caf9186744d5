"""Texts of docx, pptx and xlsx files: zip files with XML inside."""

import io
import re
import zipfile
import zlib
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from typing import Final
from xml.parsers import expat

from gateway.retrieval.parsing.parsed_text import MAX_INFLATED, UnreadableFile

_READ_SIZE: Final = 65_536
_DAMAGED: Final = "The file is damaged: it cannot be unpacked."
_TOO_LARGE: Final = f"The file is too large when it is unpacked: at most {MAX_INFLATED // 1_000_000} MB."

_NUMBER: Final = re.compile(r"\d+")

_KINDS_BY_PART: Final = {
    "word/document.xml": ".docx",
    "ppt/presentation.xml": ".pptx",
    "xl/workbook.xml": ".xlsx",
}

_TYPE_PART: Final = "mimetype"

_KINDS_BY_TYPE: Final = {
    b"application/epub+zip": ".epub",
    b"application/vnd.oasis.opendocument.text": ".odt",
    b"application/vnd.oasis.opendocument.spreadsheet": ".ods",
    b"application/vnd.oasis.opendocument.presentation": ".odp",
}


class _Archive:
    """The parts of a zip file, with a limit on their size after decompression."""

    def __init__(self, content: bytes) -> None:
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(content))
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError):
            raise UnreadableFile("invalid_file", _DAMAGED) from None
        parts = self._zip.infolist()
        if sum(part.file_size for part in parts) > MAX_INFLATED:
            raise UnreadableFile("invalid_file", _TOO_LARGE)
        if any(part.flag_bits & 1 for part in parts):
            raise UnreadableFile("invalid_file", "The file is encrypted: remove its password.")
        self.names: Final = {part.filename for part in parts}
        self._left = MAX_INFLATED

    def find_names(self, prefix: str) -> list[str]:
        """Returns the names of parts `PREFIXn.xml` in the order of their numbers."""
        pattern = re.compile(re.escape(prefix) + r"(\d+)\.xml")
        numbered = [(int(match[1]), name) for name in self.names if (match := pattern.fullmatch(name))]
        return [name for _, name in sorted(numbered)]

    def parse(
        self,
        name: str,
        handle_start: "_StartHandler",
        handle_end: Callable[[str], None],
        handle_text: Callable[[str], None],
    ) -> None:
        """Parses a part. Entities are refused, because they could refer to other files, or multiply a text."""
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = lambda tag, attributes: handle_start(tag.rpartition(" ")[2], attributes)
        parser.EndElementHandler = lambda tag: handle_end(tag.rpartition(" ")[2])
        parser.CharacterDataHandler = handle_text
        parser.StartDoctypeDeclHandler = _refuse_declaration
        parser.EntityDeclHandler = _refuse_declaration
        try:
            for data in self._inflate(name):
                parser.Parse(data, False)
            parser.Parse(b"", True)
        except expat.ExpatError:
            raise UnreadableFile("invalid_file", "The file is damaged: a part of it is not XML.") from None

    def count(self, name: str) -> None:
        """Unpacks a part, and counts its bytes."""
        for _ in self._inflate(name):
            pass

    def read_beginning(self, name: str) -> bytes:
        """Returns the first bytes of a part."""
        with closing(self._inflate(name)) as pieces:
            return next(pieces, b"")

    def _inflate(self, name: str) -> Generator[bytes, None, None]:
        try:
            with self._zip.open(name) as part:
                while data := part.read(_READ_SIZE):
                    self._left -= len(data)
                    if self._left < 0:
                        raise UnreadableFile("invalid_file", _TOO_LARGE)
                    yield data
        except (
            zipfile.BadZipFile,
            ValueError,
            NotImplementedError,
            OSError,
            EOFError,
            RuntimeError,
            KeyError,
            zlib.error,
        ):
            raise UnreadableFile("invalid_file", _DAMAGED) from None


_StartHandler = Callable[[str, dict[str, str]], None]


def _refuse_declaration(*_: object) -> None:
    raise UnreadableFile("invalid_file", "The file declares a document type or entities, which no such file needs.")


def find_archive_kind(content: bytes) -> str:
    """Returns what kind of document a zip file is, as the ending of its name; empty if it is none.

    Raises UnreadableFile if it is damaged, encrypted, or too large when it is unpacked.
    """
    archive = _Archive(content)
    for part, kind in _KINDS_BY_PART.items():
        if part in archive.names:
            return kind
    return _KINDS_BY_TYPE.get(archive.read_beginning(_TYPE_PART), "") if _TYPE_PART in archive.names else ""


def read_office(content: bytes, kind: str) -> str:
    """Returns the text of a docx, pptx or xlsx file."""
    return _READERS[kind](_Archive(content))


def check_archive(content: bytes) -> None:
    """Unpacks a document, and counts what it unpacks to. For readers that do not bound what they unpack.

    Raises UnreadableFile if it is damaged, too large, or declares a document type.
    """
    archive = _Archive(content)
    for name in sorted(archive.names):
        if name.endswith((".xml", ".rels")):
            archive.parse(name, _ignore, _ignore, _ignore)
        else:
            archive.count(name)


def _ignore(*_: object) -> None:
    pass


class _Paragraphs:
    """Collects the text of paragraphs, of Word as of PowerPoint: `t` is text, `p` a paragraph, `tab`, `br` and `cr`
    are blanks, and a cell (`tc`) ends with a tab."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._is_text = False

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._is_text = tag == "t"
        if tag == "tab":
            self.parts.append("\t")
        elif tag in ("br", "cr"):
            self.parts.append("\n")

    def end(self, tag: str) -> None:
        self._is_text = False
        if tag in ("p", "tr"):
            self.parts.append("\n")

    def add(self, text: str) -> None:
        if self._is_text:
            self.parts.append(text)


def _read_document(archive: _Archive) -> str:
    paragraphs = _Paragraphs()
    for name in ("word/document.xml", "word/footnotes.xml", "word/endnotes.xml"):
        if name in archive.names:
            archive.parse(name, paragraphs.start, paragraphs.end, paragraphs.add)
    return "".join(paragraphs.parts)


def _read_slides(archive: _Archive) -> str:
    slides = []
    for name in archive.find_names("ppt/slides/slide"):
        paragraphs = _Paragraphs()
        archive.parse(name, paragraphs.start, paragraphs.end, paragraphs.add)
        notes = name.replace("ppt/slides/slide", "ppt/notesSlides/notesSlide")
        if notes in archive.names:
            archive.parse(notes, paragraphs.start, paragraphs.end, paragraphs.add)
        slides.append("".join(paragraphs.parts))
    return "\n\n".join(slides)


class _Cells:
    """Collects the cells of a sheet: a line for each row, with tabs between its cells."""

    def __init__(self, shared: list[str]) -> None:
        self.rows: list[str] = []
        self._shared = shared
        self._row: list[str] = []
        self._kind = ""
        self._value: list[str] = []
        self._reads = False

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "row":
            self._row = []
        elif tag == "c":
            self._kind, self._value = attributes.get("t", ""), []
        elif tag in ("v", "t"):
            self._reads = True

    def end(self, tag: str) -> None:
        if tag in ("v", "t"):
            self._reads = False
        elif tag == "c":
            self._row.append(self._decode_cell("".join(self._value)))
        elif tag == "row" and any(self._row):
            self.rows.append("\t".join(self._row).rstrip("\t"))

    def add(self, text: str) -> None:
        if self._reads:
            self._value.append(text)

    def _decode_cell(self, value: str) -> str:
        if self._kind == "s":
            index = int(value) if _NUMBER.fullmatch(value) else -1
            return self._shared[index] if 0 <= index < len(self._shared) else ""
        return value.replace("\n", " ")


class _SharedTexts:
    """Collects the texts that the cells of a workbook refer to by number."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._parts: list[str] = []
        self._reads = False

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "si":
            self._parts = []
        self._reads = tag == "t"

    def end(self, tag: str) -> None:
        self._reads = False
        if tag == "si":
            self.texts.append("".join(self._parts).replace("\n", " "))

    def add(self, text: str) -> None:
        if self._reads:
            self._parts.append(text)


def _read_sheets(archive: _Archive) -> str:
    shared = _SharedTexts()
    if "xl/sharedStrings.xml" in archive.names:
        archive.parse("xl/sharedStrings.xml", shared.start, shared.end, shared.add)
    sheets = []
    for name in archive.find_names("xl/worksheets/sheet"):
        cells = _Cells(shared.texts)
        archive.parse(name, cells.start, cells.end, cells.add)
        sheets.append("\n".join(cells.rows))
    return "\n\n".join(sheets)


_READERS: Final[Mapping[str, Callable[[_Archive], str]]] = {
    ".docx": _read_document,
    ".pptx": _read_slides,
    ".xlsx": _read_sheets,
}
