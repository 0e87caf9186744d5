"""Texts of docx, pptx and xlsx files: zip files with XML inside."""

import io
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Final
from xml.parsers import expat

from gateway.retrieval.parsing.parsed_text import MAX_INFLATED, UnreadableFile

_READ_SIZE: Final = 65_536
_DAMAGED: Final = "The file is damaged: it cannot be unpacked."
_TOO_LARGE: Final = f"The file is too large when it is unpacked: at most {MAX_INFLATED // 1_000_000} MB."

_NUMBER: Final = re.compile(r"\d+")

DOCUMENT_PARTS: Final = ("word/document.xml", "ppt/presentation.xml", "xl/workbook.xml")
"""A zip file with one of these parts is a docx, pptx or xlsx file."""


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

    def _inflate(self, name: str) -> Iterator[bytes]:
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


def read_office(content: bytes) -> str | None:
    """Returns the text of a docx, pptx or xlsx file; None if a zip file is none of them."""
    archive = _Archive(content)
    for part, read in zip(DOCUMENT_PARTS, (_read_document, _read_slides, _read_sheets), strict=True):
        if part in archive.names:
            return read(archive)
    return None


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
