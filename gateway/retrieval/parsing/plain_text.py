"""Decodes text files, and the escapes of JSON files."""

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, Final

from gateway.retrieval.parsing.parsed_text import UnreadableFile

_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # begins with the mark of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

_CONTROL: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_MAX_CONTROL_SHARE: Final = 0.01

_CP1252_GAPS: Final = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")


def decode_text(content: bytes) -> str:
    """Returns the text of a file: by its byte order mark, else UTF-8, else Windows-1252 if it looks like a text.

    Line ends become `\\n`. Raises UnreadableFile if the bytes are no text.
    """
    return decode_bytes(content).replace("\r\n", "\n").replace("\r", "\n")


def decode_bytes(content: bytes) -> str:
    """Returns the text of bytes as `decode_text` does, with its own line ends."""
    for mark, encoding in _BOMS:
        if content.startswith(mark):
            try:
                return content.decode(encoding)
            except UnicodeDecodeError:
                raise UnreadableFile(
                    "invalid_file", "The file is damaged: it is not in the encoding that its first bytes name."
                ) from None
    sample = content[:65_536]
    if b"\0" in sample or len(_CONTROL.findall(sample)) > len(sample) * _MAX_CONTROL_SHARE or b"\0" in content:
        raise UnreadableFile("unsupported_file", "The file is not a text, and of no other kind that can be read.")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        pass
    if _CP1252_GAPS.search(content):
        raise UnreadableFile("unsupported_file", "The file is in no encoding that can be read: save it as UTF-8.")
    return content.decode("cp1252")


def read_json_text(text: str) -> str:
    """Returns the text of a JSON file, or of one JSON value on each line, with escapes decoded.

    Returns the text as it is if it is not JSON, or is nested too deep.
    """
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=1)
    except (ValueError, RecursionError):
        pass
    try:
        return "\n".join(_decode_lines(text))
    except (ValueError, RecursionError):
        return text


def _decode_lines(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        value: Any = json.loads(line) if line.strip() else ""
        yield json.dumps(value, ensure_ascii=False) if line.strip() else ""
