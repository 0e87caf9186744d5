"""translation/gemini/upstream/parts.py"""

import pytest

from translation.errors import InvalidRequest
from translation.gemini.upstream.parts import lower_parts
from translation.representation.json_types import Json
from translation.representation.loss import Loss

PNG = "data:image/png;base64,QUJD"

CASES: dict[str, tuple[Json, Json, list[str]]] = {
    "text": ({"type": "input_text", "text": "a"}, {"text": "a"}, []),
    "no text": ({"type": "input_text", "text": None}, {"text": ""}, []),
    "an image": (
        {"type": "input_image", "image_url": PNG, "detail": "auto"},
        {"inlineData": {"mimeType": "image/png", "data": "QUJD"}},
        [],
    ),
    "an image in detail": (
        {"type": "input_image", "image_url": PNG, "detail": "high"},
        {"inlineData": {"mimeType": "image/png", "data": "QUJD"}},
        ["p[0].detail=dropped"],
    ),
    "an image elsewhere": (
        {"type": "input_image", "image_url": "https://host/a.JPG?b=c.d"},
        {"fileData": {"fileUri": "https://host/a.JPG?b=c.d", "mimeType": "image/jpeg"}},
        [],
    ),
    "an image elsewhere of an unknown type": (
        {"type": "input_image", "image_url": "https://host/a"},
        {"fileData": {"fileUri": "https://host/a"}},
        [],
    ),
    "an address that is none": (
        {"type": "input_image", "image_url": "https://["},
        {"fileData": {"fileUri": "https://["}},
        [],
    ),
    "a sound": (
        {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "mp3"}},
        {"inlineData": {"mimeType": "audio/mp3", "data": "QUJD"}},
        [],
    ),
    "a sound of another format": (
        {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "flac"}},
        {"inlineData": {"mimeType": "audio/flac", "data": "QUJD"}},
        [],
    ),
    "a document": (
        {"type": "input_file", "file_data": "data:application/pdf;base64,QUJD"},
        {"inlineData": {"mimeType": "application/pdf", "data": "QUJD"}},
        [],
    ),
    "a document with a name": (
        {"type": "input_file", "file_data": "QUJD", "filename": "a.pdf"},
        {"inlineData": {"mimeType": "application/pdf", "data": "QUJD"}},
        ["p[0].filename=dropped"],
    ),
    "a document that the client did not name": (
        {"type": "input_file", "file_data": "data:application/pdf;base64,QUJD", "filename": "document.pdf"},
        {"inlineData": {"mimeType": "application/pdf", "data": "QUJD"}},
        [],
    ),
    "a document elsewhere": (
        {"type": "input_file", "file_url": "https://host/a.pdf"},
        {"fileData": {"fileUri": "https://host/a.pdf", "mimeType": "application/pdf"}},
        [],
    ),
    "a file to be looked at closely": (
        {"type": "input_file", "file_data": "data:text/plain,a", "detail": "high"},
        {"text": "a"},
        ["p[0].detail=dropped"],
    ),
    "a text file": ({"type": "input_file", "file_data": "data:text/plain,a"}, {"text": "a"}, []),
    "a text file with a name": (
        {"type": "input_file", "file_data": "data:text/plain,a", "filename": "b.txt"},
        {"text": "b.txt:\na"},
        [],
    ),
}


@pytest.mark.parametrize(("part", "expected", "lost"), CASES.values(), ids=CASES)
def test_a_part_is_lowered(part: Json, expected: Json, lost: list[str]) -> None:
    losses: list[Loss] = []
    assert lower_parts([part], "p", losses) == [expected]
    assert list(map(str, losses)) == lost


REFUSED: dict[str, tuple[Json, str]] = {
    "an image that is stored": ({"type": "input_image", "file_id": "f"}, "p[0].file_id"),
    "a file that is stored": ({"type": "input_file", "file_id": "f"}, "p[0].file_id"),
    "a file that does not say what it is": ({"type": "input_file", "file_data": "QUJD"}, "p[0].file_data"),
    "an image that does not say what it is": ({"type": "input_image", "image_url": "data:,a"}, "p[0].image_url"),
    "anything else": ({"type": "input_video"}, "p[0]"),
}


@pytest.mark.parametrize(("part", "param"), REFUSED.values(), ids=REFUSED)
def test_unsupported_values_are_refused_by_name(part: Json, param: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        lower_parts([part], "p", [])
    assert refusal.value.param == param
