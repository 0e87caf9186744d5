"""Reads the name of a file from its URL."""

import pytest

from translation.lowering.media import find_file_name


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://a/b/c%20d.pdf?e=f/g.txt#h", "c d.pdf"),
        ("gs://bucket/a.png", "a.png"),
        ("https://a.pdf", ""),
        ("https://a/", ""),
        ("https://[", ""),
    ],
)
def test_a_file_is_named_after_the_end_of_its_path(url: str, name: str) -> None:
    assert find_file_name(url) == name
