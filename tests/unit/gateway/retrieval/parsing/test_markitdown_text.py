"""MarkItDown reads documents in the same children, with the same bounds, as the gateway's own parsers."""

import io
import tempfile
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import openpyxl
import pptx
import pytest

from gateway.retrieval.chunks import ChunkSizes
from gateway.retrieval.parsing.parsed_text import IndexedChunk, ParsingBounds, UnreadableFile
from gateway.retrieval.parsing.parser_pool import ParserPool
from gateway.retrieval.terms import iterate_index_terms
from tests.unit.gateway.retrieval.parsing.documents import (
    WORD,
    build_bomb,
    build_docx,
    build_pdf,
    build_zip,
    take_content,
)
from tests.unit.gateway.retrieval.parsing.test_file_text import encrypt_pdf, encrypt_zip, lie_about_size

# The parser server imports MarkItDown first, which takes seconds on a busy machine.
BOUNDS = ParsingBounds(seconds=120)


@pytest.fixture(scope="module")
async def pool() -> AsyncIterator[ParserPool]:
    pool = ParserPool(2, "markitdown")
    yield pool
    await pool.close()


async def parse(
    pool: ParserPool, folder: Path, name: str, content: bytes, bounds: ParsingBounds = BOUNDS
) -> tuple[str, list[IndexedChunk]]:
    text, chunks = "", []
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(content)
        file.seek(0)
        async for found in pool.parse(file.fileno(), name, bounds, ChunkSizes(100, 50)):
            if isinstance(found, str):
                text += found
            else:
                chunks += found
    return text, chunks


def build_workbook() -> bytes:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.append(["Name", "Wert"])
    sheet.append(["Köln", 4.5])
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def build_slides() -> bytes:
    slides = pptx.Presentation()
    title = slides.slides.add_slide(slides.slide_layouts[0]).shapes.title
    assert title is not None
    title.text = "On a slide"
    out = io.BytesIO()
    slides.save(out)
    return out.getvalue()


def build_epub() -> bytes:
    return build_zip(
        {
            "mimetype": b"application/epub+zip",
            "META-INF/container.xml": '<container><rootfiles><rootfile full-path="a.opf"/></rootfiles></container>',
            "a.opf": '<package xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata><dc:title>A book</dc:title>'
            "</metadata>"
            '<manifest><item id="c" href="c.xhtml"/></manifest><spine><itemref idref="c"/></spine></package>',
            "c.xhtml": "<!DOCTYPE html><html><body><h1>Chapter</h1><p>In a book</p></body></html>",
        }
    )


READ = [
    ("a.pdf", build_pdf("In a PDF"), "In a PDF"),
    ("by-its-content", build_pdf("In a PDF"), "In a PDF"),
    ("a.docx", build_docx("In Word &amp; more"), "In Word & more"),
    ("a.pptx", build_slides(), "# On a slide"),
    ("a.xlsx", build_workbook(), "| Name | Wert |\n| --- | --- |\n| Köln | 4.5 |"),
    ("a.epub", build_epub(), "# Chapter\n\nIn a book"),
    (
        "a.html",
        b"<h1>Title</h1><script>no()</script><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>",
        "# Title\n\n| a | b |\n| --- | --- |\n| 1 | 2 |",
    ),
    # What is only a text is read by the gateway itself.
    ("a.txt", "K\xf6ln".encode("cp1252"), "K\xf6ln"),
    ("a.csv", b"a,b\n1,2\n", "a,b\n1,2\n"),
    ("a.json", b'{"a": "\\u00e9"}', '{\n "a": "\xe9"\n}'),
    ("a.md", b"# *kept* as it is", "# *kept* as it is"),
]


@pytest.mark.parametrize(("name", "content", "text"), READ, ids=[name for name, *_ in READ])
async def test_a_child_reads_every_kind_although_it_may_open_nothing(
    pool: ParserPool, tmp_path: Path, name: str, content: bytes, text: str
) -> None:
    found, chunks = await parse(pool, tmp_path, name, content)
    assert text in found
    assert all(each.terms.split() == list(iterate_index_terms(found[each.start : each.end])) for each in chunks)


REFUSED: list[tuple[str, bytes | Callable[[], bytes], str]] = [
    ("empty.pdf", b"", "invalid_file"),
    ("damaged.pdf", b"%PDF-1.7 and nothing else", "invalid_file"),
    ("scan.pdf", build_pdf(""), "unsupported_file"),
    ("encrypted.pdf", encrypt_pdf(), "invalid_file"),
    ("encrypted.docx", encrypt_zip(), "invalid_file"),
    ("cut.docx", build_docx("a")[:-30], "invalid_file"),
    ("bomb.docx", build_bomb, "invalid_file"),
    ("liar.docx", lie_about_size, "invalid_file"),
    ("bomb.epub", partial(build_bomb, "application/epub+zip"), "invalid_file"),
    (
        "laughs.docx",
        build_zip({"word/document.xml": f'<!DOCTYPE w [<!ENTITY a "ha">]><w:p {WORD}><w:t>&a;</w:t></w:p>'}),
        "invalid_file",
    ),
    ("no-sheet.xlsx", build_zip({"xl/workbook.xml": "<workbook/>"}), "invalid_file"),
    ("files.zip", build_zip({"a.txt": "text"}), "unsupported_file"),
    ("odd.odt", build_zip({"mimetype": b"application/vnd.oasis.opendocument.text"}), "unsupported_file"),
    ("image.png", b"\x89PNG\r\n\x1a\n\0\0", "unsupported_file"),
    ("damaged.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0\0", "invalid_file"),
    ("nul.txt", b"text\0text", "unsupported_file"),
]


@pytest.mark.parametrize(("name", "content", "code"), REFUSED, ids=[name for name, *_ in REFUSED])
async def test_what_cannot_be_read_is_refused_by_one_sentence(
    pool: ParserPool, tmp_path: Path, name: str, content: bytes | Callable[[], bytes], code: str
) -> None:
    with pytest.raises(UnreadableFile) as fault:
        await parse(pool, tmp_path, name, take_content(content))
    assert fault.value.code == code
    assert fault.value.message.endswith(".")
    assert "/" not in fault.value.message


HTML = b"<html>" + b"<p>many words of a page</p>" * 200_000
BEYOND = {
    "time": ParsingBounds(seconds=0.5),
    "memory": ParsingBounds(seconds=120, memory_mb=64),
    "characters": ParsingBounds(seconds=120, characters=1000),
}


@pytest.mark.parametrize("bound", BEYOND)
async def test_a_child_beyond_its_bounds_ends_and_the_next_file_is_parsed(
    pool: ParserPool, tmp_path: Path, bound: str
) -> None:
    content = HTML if bound != "characters" else HTML[:50_000]
    with pytest.raises(UnreadableFile) as fault:
        await parse(pool, tmp_path, "a.html", content, BEYOND[bound])
    assert fault.value.code == "invalid_file"
    assert (await parse(pool, tmp_path, "a.txt", b"after"))[0] == "after"


async def test_a_page_that_is_nested_too_deep_is_read_as_the_gateway_reads_it(pool: ParserPool, tmp_path: Path) -> None:
    text, _ = await parse(pool, tmp_path, "a.html", b"<html>" + b"<div>" * 5000 + b"in the depth")
    assert text.strip() == "in the depth"
