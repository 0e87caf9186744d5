"""Texts of files: every kind that is read, and every kind of file that is refused."""

import io
import zipfile
from collections.abc import Callable
from functools import cache

import pytest
from pypdf import PdfReader, PdfWriter

from gateway.retrieval.parsing.file_text import read_text
from gateway.retrieval.parsing.parsed_text import ParsingBounds, UnreadableFile
from tests.unit.gateway.retrieval.parsing.documents import (
    SLIDE,
    WORD,
    build_bomb,
    build_docx,
    build_pdf,
    build_pptx,
    build_xlsx,
    build_zip,
    take_content,
)

HTML = (
    b"<!DOCTYPE html><head><title>T&eacute;st</title><style>p{}</style><script>if (a<b) {}</script></head>"
    b"<body><!-- no --><p>One &amp; <b>two</b>\n three</p><pre>a\n  b</pre><ul><li>x<li>y</ul><noscript>off</noscript>"
)


TEXTS: list[tuple[str, bytes, str]] = [
    ("lines.txt", b"plain\r\ntext\rhere", "plain\ntext\nhere"),
    ("emoji.md", "# Zürich 👍".encode(), "# Zürich 👍"),
    ("bom.txt", b"\xef\xbb\xbfbom", "bom"),
    ("utf-16.txt", "sixteen ü".encode("utf-16"), "sixteen ü"),
    ("utf-16-be.txt", "big ü".encode("utf-16-be").join([b"\xfe\xff", b""]), "big ü"),
    ("utf-32.txt", "thirty-two".encode("utf-32"), "thirty-two"),
    ("windows.txt", "Köln “quoted”".encode("cp1252"), "Köln “quoted”"),
    ("code.py", b"def f():\n\treturn 1\x0c\n", "def f():\n\treturn 1\x0c\n"),
    ("table.csv", b"a,b\n1,2\n", "a,b\n1,2\n"),
    ("escapes.json", b'{"a": ["\\u00e9", 1]}', '{\n "a": [\n  "é",\n  1\n ]\n}'),
    ("lines-of.jsonl", b'{"a": "\\u00e9"}\n\n{"b": 2}', '{"a": "é"}\n\n{"b": 2}'),
    ("not.json", b"{not json", "{not json"),
    ("half.json", b'{"half": "\\ud83d"}', '{\n "half": "�"\n}'),
    ("deep.json", b"[1" * 50_000, "[1" * 50_000),
    ("page.html", HTML, "Tést\n\nOne & two three\n\na\nb\n\nx\ny"),
    ("page", HTML, "Tést\n\nOne & two three\n\na\nb\n\nx\ny"),
    ("a.docx", build_docx("First", "Second &amp; third"), "First\nSecond & third\n"),
    ("no-name", build_docx("First"), "First\n"),
    (
        "a.pptx",
        build_pptx(*(f"Slide {n}" for n in range(1, 12))),
        "\n\n\n".join(f"Slide {n}" for n in range(1, 12)) + "\n",
    ),
    ("a.xlsx", build_xlsx([["a", "b"], ["c", "d"]]), "a\tb\t4.5\nc\td\t4.5"),
    ("a.pdf", build_pdf("Page one", "Page two"), "Page one\n\nPage two"),
    ("a.bin", build_pdf("By its content"), "By its content"),
]


@pytest.mark.parametrize(("name", "content", "text"), TEXTS, ids=[name for name, *_ in TEXTS])
def test_the_text_of_every_kind_is_read(name: str, content: bytes, text: str) -> None:
    assert read_text(content, name, ParsingBounds()) == text


def encrypt_pdf() -> bytes:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(build_pdf("secret"))))
    writer.encrypt("password", algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def encrypt_zip() -> bytes:
    content = bytearray(build_docx("a"))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + offset] |= 1
    return bytes(content)


@cache
def lie_about_size() -> bytes:
    """A zip file whose directory says that its part is small."""
    content = bytearray(build_zip({"word/document.xml": b"<w>" + b" " * 110_000_000 + b"</w>"}))
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        place = content.index(signature) + offset
        content[place : place + 4] = (1000).to_bytes(4, "little")
    return bytes(content)


def damage_part() -> bytes:
    content = bytearray(build_docx("some text that is long enough to damage" * 20))
    content[60:70] = b"\xff" * 10
    return bytes(content)


UNREADABLE: list[tuple[str, bytes | Callable[[], bytes], str]] = [
    ("empty.txt", b"", "invalid_file"),
    ("blank.txt", b" \n\t", "unsupported_file"),
    ("signs.txt", b"---- ....", "unsupported_file"),
    ("nul.txt", b"text\0text", "unsupported_file"),
    ("late-nul.txt", b"text " * 20_000 + b"\0", "unsupported_file"),
    ("control.txt", bytes(range(1, 32)) * 10, "unsupported_file"),
    ("gaps.txt", b"caf\xe9 \x81\x8d", "unsupported_file"),
    ("image.png", b"\x89PNG\r\n\x1a\n\0\0", "unsupported_file"),
    ("odd.txt", b"\xff\xfea\0b", "invalid_file"),
    ("empty.json", b"{}", "unsupported_file"),
    ("script.html", b"<html><script>only()</script></html>", "unsupported_file"),
    ("damaged.pdf", b"%PDF-1.7 and nothing else", "invalid_file"),
    ("cut.pdf", build_pdf("text")[:200], "invalid_file"),
    ("not.pdf", b"plain text", "invalid_file"),
    ("not.docx", b"plain text", "invalid_file"),
    ("encrypted.pdf", encrypt_pdf(), "invalid_file"),
    ("scan.pdf", build_pdf(""), "unsupported_file"),
    ("files.zip", build_zip({"a.txt": "text"}), "unsupported_file"),
    ("none.zip", build_zip({}), "unsupported_file"),
    ("cut.docx", build_docx("a")[:-30], "invalid_file"),
    ("encrypted.docx", encrypt_zip(), "invalid_file"),
    ("damaged.docx", damage_part(), "invalid_file"),
    ("bomb.docx", build_bomb, "invalid_file"),
    ("liar.docx", lie_about_size, "invalid_file"),
    ("not-xml.docx", build_zip({"word/document.xml": "<w><unclosed>"}), "invalid_file"),
    (
        "laughs.docx",
        build_zip({"word/document.xml": f'<!DOCTYPE w [<!ENTITY a "ha">]><w:p {WORD}><w:t>&a;</w:t></w:p>'}),
        "invalid_file",
    ),
    (
        "outside.pptx",
        build_zip(
            {
                "ppt/presentation.xml": "<p/>",
                "ppt/slides/slide1.xml": f'<!DOCTYPE p SYSTEM "file:///etc/passwd"><p:sld {SLIDE}/>',
            }
        ),
        "invalid_file",
    ),
    ("long.txt", b"word " * 300, "invalid_file"),
]


@pytest.mark.parametrize(("name", "content", "code"), UNREADABLE, ids=[name for name, *_ in UNREADABLE])
def test_files_without_a_text_are_refused_by_one_sentence(
    name: str, content: bytes | Callable[[], bytes], code: str
) -> None:
    with pytest.raises(UnreadableFile) as fault:
        read_text(take_content(content), name, ParsingBounds(characters=1000 if name == "long.txt" else 20_000_000))
    assert fault.value.code == code
    assert fault.value.message.endswith((".", "UTF-8."))
    assert "/" not in fault.value.message


def test_cells_refer_to_shared_texts_that_exist() -> None:
    content = build_xlsx([["a"]])
    parts = {
        name: zipfile.ZipFile(io.BytesIO(content)).read(name)
        for name in zipfile.ZipFile(io.BytesIO(content)).namelist()
    }
    parts["xl/worksheets/sheet1.xml"] = parts["xl/worksheets/sheet1.xml"].replace(b"<v>0</v>", b"<v>7</v>")
    assert read_text(build_zip(parts), "a.xlsx", ParsingBounds()) == "\t4.5"
