"""Files of the kinds that are parsed, built from their texts."""

import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache

WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
SLIDE = (
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
)
SHEET = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'


def build_zip(parts: Mapping[str, str | bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return out.getvalue()


@cache
def build_bomb(mimetype: str = "") -> bytes:
    """A zip file of which one part has 100 million characters."""
    if mimetype:
        return build_zip({"mimetype": mimetype, "a.png": b" " * 100_000_001})
    return build_zip({"word/document.xml": b" " * 100_000_001})


def take_content(row: bytes | Callable[[], bytes]) -> bytes:
    """Returns the content of a file of a table. Large files are built for their tests and not with the table, which
    each process builds that collects tests."""
    return row if isinstance(row, bytes) else row()


def build_docx(*paragraphs: str) -> bytes:
    body = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in paragraphs)
    return build_zip({"word/document.xml": f"<w:document {WORD}><w:body>{body}</w:body></w:document>"})


def build_pptx(*slides: str) -> bytes:
    parts = {"ppt/presentation.xml": f"<p:presentation {SLIDE}/>"}
    for number, text in enumerate(slides, 1):
        parts[f"ppt/slides/slide{number}.xml"] = f"<p:sld {SLIDE}><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:sld>"
    return build_zip(parts)


def build_xlsx(rows: Sequence[Sequence[str]]) -> bytes:
    texts = [text for row in rows for text in row]
    shared = "".join(f"<si><t>{text}</t></si>" for text in texts)
    numbers = iter(range(len(texts)))
    cells = ""
    for row in rows:
        references = "".join(f"<c t='s'><v>{next(numbers)}</v></c>" for _ in row)
        cells += f"<row>{references}<c><v>4.5</v></c></row>"
    return build_zip(
        {
            "xl/workbook.xml": f"<workbook {SHEET}/>",
            "xl/sharedStrings.xml": f"<sst {SHEET}>{shared}</sst>",
            "xl/worksheets/sheet1.xml": f"<worksheet {SHEET}><sheetData>{cells}</sheetData></worksheet>",
        }
    )


def build_pdf(*pages: str) -> bytes:
    """Builds a PDF with one line of ASCII text on each page."""
    objects = ["<</Type/Catalog/Pages 2 0 R>>", "", "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"]
    kids = []
    for text in pages:
        content = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
        objects.append(f"<</Length {len(content)}>>stream\n{content}\nendstream")
        objects.append(
            "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F1 3 0 R>>>>"
            f"/Contents {len(objects)} 0 R>>"
        )
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<</Type/Pages/Count {len(kids)}/Kids[{' '.join(kids)}]>>"
    out, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{content}\nendobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    end = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}trailer<</Size {len(objects) + 1}/Root 1 0 R>>\n"
    return out + f"{end}startxref\n{len(out)}\n%%EOF".encode()
