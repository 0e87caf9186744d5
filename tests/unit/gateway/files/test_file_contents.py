"""What a file is, by its bytes and then by its name."""

import base64

import pytest

from gateway.files.file_contents import build_content


@pytest.mark.parametrize(
    ("name", "data", "media_type", "text"),
    [
        ("a.txt", b"", "text/plain", ""),
        ("a", b"plain", "text/plain", "plain"),
        ("a.csv", b"\xef\xbb\xbfa,b", "text/csv", "a,b"),
        ("a.txt", "ü".encode("utf-16"), "text/plain", "ü"),
        ("a.txt", b"\xff\xfea", "text/plain", None),
        ("a.txt", b"a\0b", "text/plain", None),
        ("a.png", b"no image", "text/plain", "no image"),
        ("a.png", b"\xff\xff", "application/octet-stream", None),
        ("a.docx", b"PK\x03\x04\xff", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", None),
        ("a.txt", b"%PDF-1.7 text", "application/pdf", None),
        ("a.txt", b"\x89PNG\r\n\x1a\n", "image/png", None),
        ("a", b"\xff\xd8\xff\xe0", "image/jpeg", None),
        ("a", b"GIF89a", "image/gif", None),
        ("a", b"GIF87a", "image/gif", None),
        ("a", b"RIFF\0\0\0\0WEBPVP8", "image/webp", None),
        ("a.wav", b"RIFF\0\0\0\0WAVE", "audio/x-wav", None),
    ],
)
def test_a_file_is_what_its_bytes_say(name: str, data: bytes, media_type: str, text: str | None) -> None:
    content = build_content(name, data)
    assert content.data_url == f"data:{media_type};base64,{base64.b64encode(data).decode()}"
    assert content.is_image == media_type.startswith("image/")
    assert (content.filename, content.text) == (name, text)
