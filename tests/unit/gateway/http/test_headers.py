"""Headers are looked up by name and encoded as Latin-1."""

from typing import Any

from gateway.http.headers import encode_headers, headers_of, set_header


def test_of_several_headers_with_one_name_the_first_counts() -> None:
    scope: Any = {"headers": [(b"a", b"1"), (b"b", b"2"), (b"a", b"3")]}
    assert headers_of(scope) == {b"a": b"1", b"b": b"2"}


def test_a_header_that_is_set_replaces_that_of_the_client() -> None:
    scope: Any = {"headers": [(b"a", b"1"), (b"b", b"2")]}
    set_header(scope, b"a", b"3")
    assert headers_of(scope) == {b"a": b"3", b"b": b"2"}


def test_names_and_values_are_encoded_in_their_order() -> None:
    assert encode_headers({"x-b": "é", "x-a": ""}) == [(b"x-b", b"\xe9"), (b"x-a", b"")]
    assert encode_headers({}) == []
