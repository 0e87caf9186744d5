"""Names of files: which are refused, and how a download says them."""

import pytest

from gateway.files.file_names import build_disposition, clean_file_name
from translation.errors import InvalidRequest

BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.txt", "a.txt"),
        ("/etc/passwd", "passwd"),
        ("../../a.txt", "a.txt"),
        ("C:\\Users\\ann\\a.txt", "a.txt"),
        ("a/b\\c.txt", "c.txt"),
        ("日本.pdf", "日本.pdf"),
        ("...", "..."),
        (" .txt", " .txt"),
        ("damaged \ufffd", "damaged \ufffd"),
        ("x" * 255, "x" * 255),
    ],
)
def test_folders_are_cut_off(name: str, expected: str) -> None:
    assert clean_file_name(name, "file") == expected


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "a/", "a/..", "a\\", "x" * 256, "a\0b", "a\nb", "a\x7f", "a\x85", "a\u2028b"]
    + [f"a{character}b" for character in BIDI],
)
def test_names_that_no_file_may_have_are_refused_with_the_parameter(name: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        clean_file_name(name, "filename")
    assert refused.value.param == "filename"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a b.txt", 'attachment; filename="a b.txt"'),
        ('a"b;c.txt', "attachment; filename=\"a_b_c.txt\"; filename*=UTF-8''a%22b%3Bc.txt"),
        ("é'%.txt", "attachment; filename=\"___.txt\"; filename*=UTF-8''%C3%A9%27%25.txt"),
    ],
)
def test_a_download_has_the_exact_name_and_one_for_old_clients(name: str, expected: str) -> None:
    assert build_disposition(name) == expected
