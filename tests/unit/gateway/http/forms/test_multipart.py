"""Multipart forms, for every split, and refusals of ambiguous forms."""

import httpx
import pytest

from gateway.http.forms.multipart import (
    FormSplitter,
    PartStart,
    parse_boundary,
    render_form_end,
    render_part_start,
)
from translation.errors import InvalidRequest

CONTENT = b"RIFF\r\n--\r\n--b\r\n\x00\xff" * 50


def split(body: bytes, boundary: str = "bound", size: int = 0) -> list[tuple[PartStart, bytes]]:
    splitter = FormSplitter(boundary)
    parts: list[tuple[PartStart, bytes]] = []
    for start in range(0, len(body), size or len(body)):
        for piece in splitter.feed(body[start : start + (size or len(body))]):
            if isinstance(piece, PartStart):
                parts.append((piece, b""))
            else:
                parts[-1] = (parts[-1][0], parts[-1][1] + piece)
    assert splitter.ended
    return parts


def form(*heads: str, content: str = "x") -> bytes:
    return "".join(f"--bound\r\n{head}\r\n\r\n{content}\r\n" for head in heads).encode() + b"--bound--\r\n"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 0])
def test_parts_are_the_same_however_the_form_is_cut(size: int) -> None:
    request = httpx.Request(
        "POST", "http://x", data={"model": "m", "empty": ""}, files={"file": ("ä.wav", CONTENT, "audio/wav")}
    )
    parts = split(request.read(), parse_boundary(request.headers["content-type"]), size)
    assert parts == [
        (PartStart("model"), b"m"),
        (PartStart("empty"), b""),
        (PartStart("file", "ä.wav", "audio/wav"), CONTENT),
    ]


def test_a_re_encoded_form_has_the_same_parts() -> None:
    start = PartStart("image[]", 'a"b\\c\r\nd.png', "image/png")
    body = render_part_start("bound", start) + CONTENT + b"\r\n" + render_form_end("bound")
    assert split(body) == [(PartStart("image[]", "a%22b%5Cc%0D%0Ad.png", "image/png"), CONTENT)]


def test_names_of_files_in_the_extended_form_are_decoded() -> None:
    head = "Content-Disposition: form-data; name=file; filename=a; filename*=utf-8''%C3%A4.wav"
    assert split(form(head)) == [(PartStart("file", "ä.wav"), b"x")]


def test_lengths_and_plain_encodings_of_parts_are_left_out() -> None:
    head = 'content-disposition: form-data; name="a"\r\nContent-Length: 1\r\nContent-Transfer-Encoding: BINARY'
    assert split(form(head)) == [(PartStart("a"), b"x")]


@pytest.mark.parametrize(
    "body",
    {
        "text before the first boundary": b"x\r\n" + form('Content-Disposition: form-data; name="a"'),
        "a boundary that goes on": b"--boundary\r\n\r\n",
        "no header": form(""),
        "two names": form('Content-Disposition: form-data; name="a"; name="model"'),
        "two dispositions": form('Content-Disposition: form-data; name="a"\r\nContent-Disposition: form-data; name=b'),
        "an extended name": form("Content-Disposition: form-data; name*=utf-8''model"),
        "no name": form("Content-Disposition: form-data"),
        "a name with a quote": form('Content-Disposition: form-data; name="a\\"; b"'),
        "another disposition": form('Content-Disposition: attachment; name="a"'),
        "a header on two lines": form('Content-Disposition: form-data;\r\n name="a"'),
        "a line feed alone": form('Content-Disposition: form-data; name="a"\nX: y'),
        "an encoding": form('Content-Disposition: form-data; name="a"\r\nContent-Transfer-Encoding: base64'),
        "an unknown header": form('Content-Disposition: form-data; name="a"\r\nX-Model: b'),
        "text after the parameters": form('Content-Disposition: form-data; name="a" model'),
        "a head that is too long": form("Content-Type: " + "x" * 9000),
        "a head that does not end": b"--bound\r\n" + b"x" * 9000,
        "bytes that are no text": b'--bound\r\nContent-Disposition: form-data; name="\xff"\r\n\r\n',
        "too many parts": form(*['Content-Disposition: form-data; name="a"'] * 1001),
    }.items(),
    ids=lambda case: case[0],
)
def test_ambiguous_forms_are_refused(body: tuple[str, bytes]) -> None:
    with pytest.raises(InvalidRequest, match="malformed"):
        split(body[1])


@pytest.mark.parametrize(
    "content_type",
    ["", "application/json", "multipart/form-data", "multipart/form-data; boundary=a b;c", "x; boundary"],
)
def test_other_media_types_are_refused(content_type: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_boundary(content_type)
    assert refused.value.param == "content-type"
