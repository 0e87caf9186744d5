"""The ids of a request at the gateway and at its upstream."""

import pytest

from providers.request_ids import RequestIds, parse_request_id


@pytest.mark.parametrize(
    ("headers", "upstream_id"),
    [
        ({}, ""),
        ({b"x-request-id": b"up-1"}, "up-1"),
        ({b"request-id": b"req_011"}, "req_011"),
        ({b"apim-request-id": b"azure-1"}, "azure-1"),
        ({b"x-amzn-requestid": b"aws-1"}, "aws-1"),
        ({b"x-request-id": b"mine", b"request-id": b"req_011"}, "req_011"),
        ({b"x-request-id": b"mine"}, "mine"),
        ({b"x-request-id": b"a\x01b", b"request-id": b"req_011"}, "req_011"),
        ({b"x-request-id": b"x" * 129}, ""),
        ({b"x-request-id": "ü".encode()}, ""),
    ],
)
def test_the_id_of_an_upstream_is_read_from_the_header_that_has_one(
    headers: dict[bytes, bytes], upstream_id: str
) -> None:
    ids = RequestIds("mine")
    ids.read_upstream_id(headers)
    assert ids.upstream == upstream_id


def test_the_newest_reply_counts_also_if_it_has_no_id() -> None:
    ids = RequestIds("mine")
    ids.read_upstream_id({b"x-request-id": b"up-1"})
    ids.read_upstream_id({b"x-request-id": b"up-2"})
    assert ids.upstream == "up-2"
    ids.read_upstream_id({})
    assert ids.upstream == ""


@pytest.mark.parametrize("header", [b"", b"x" * 129, b"a\r\nb: c", b"a\tb", b"\x7f", "ü".encode()])
def test_an_id_that_no_header_can_carry_is_none(header: bytes) -> None:
    assert parse_request_id(header) is None
