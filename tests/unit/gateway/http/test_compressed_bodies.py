"""Compressed request bodies: each coding, its faults, and bodies that expand."""

import gzip
import json
import random
import sys
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import brotli
import httpx
import pytest

from gateway.errors import BodyTooLarge, GatewayError, NotJson, UnsupportedEncoding
from gateway.http.compressed_bodies import decompress_body, find_coding
from tests.serving import Gateway, serving

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MB = 1024 * 1024
Compress = Callable[[bytes], bytes]


def compress_raw(content: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(content) + compressor.flush()


CODINGS: dict[str, tuple[str, Compress]] = {
    "gzip": ("gzip", gzip.compress),
    "gzip by its old name": ("x-gzip", gzip.compress),
    "deflate": ("deflate", zlib.compress),
    "deflate without a frame": ("deflate", compress_raw),
    "Brotli": ("br", brotli.compress),
    "Zstandard": ("zstd", zstd.compress),
    "in capitals": (" GZIP ", gzip.compress),
}
MESSAGES = [{"role": "user", "content": "Hi"}]
BODIES: dict[str, dict[str, Any]] = {
    "/v1/responses": {"input": "Hi"},
    "/v1/chat/completions": {"messages": MESSAGES},
    "/v1/messages": {"messages": MESSAGES, "max_tokens": 50},
    "/v1beta/models/demo:generateContent": {"contents": [{"parts": [{"text": "Hi"}]}]},
    "/api/chat": {"messages": MESSAGES, "stream": False},
    "/generate": {"messages": MESSAGES},
}


def expand(content: bytes, coding: str, compress: Compress, max_bytes: int = MB) -> bytes:
    name = find_coding(coding.encode())
    assert name is not None
    return decompress_body(compress(content), name, max_bytes)


@pytest.mark.parametrize(("coding", "compress"), CODINGS.values(), ids=CODINGS)
@pytest.mark.parametrize("content", [b"", b"{}", b"ab" * 50_000, bytes(range(256)) * 4096], ids=len)
def test_a_body_is_decompressed(content: bytes, coding: str, compress: Compress) -> None:
    assert expand(content, coding, compress) == content


@pytest.mark.parametrize("coding", [b"", b"identity", b"Identity"])
def test_a_body_without_a_coding_is_not_compressed(coding: bytes) -> None:
    assert find_coding(coding) is None


@pytest.mark.parametrize("coding", [b"compress", b"lz4", b"gzip, br", b"\xff", b"x" * 9000])
def test_another_coding_is_refused_with_those_that_are_known(coding: bytes) -> None:
    with pytest.raises(UnsupportedEncoding) as refusal:
        find_coding(coding)
    assert refusal.value.headers == {"accept-encoding": "gzip, deflate, br, zstd"}
    assert len(refusal.value.message) < 300


def damage(coded: bytes) -> dict[str, bytes]:
    return {"empty": b"", "cut": coded[: len(coded) * 2 // 3], "without its end": coded[:-1], "not coded": b'{"a":1}'}


@pytest.mark.parametrize(("coding", "compress"), CODINGS.values(), ids=CODINGS)
def test_a_damaged_body_is_refused(coding: str, compress: Compress) -> None:
    content = json.dumps({"input": [{"number": number} for number in range(500)]}).encode()
    coding_name = find_coding(coding.encode()) or ""
    for damaged in damage(compress(content)).values():
        with pytest.raises(NotJson, match="the body is not valid"):
            decompress_body(damaged, coding_name, MB)


@pytest.mark.parametrize(("coding", "compress"), CODINGS.values(), ids=CODINGS)
@pytest.mark.parametrize(("size", "words"), [(4 * MB, "100 times its size"), (40 * MB, "100 times its size")])
def test_a_body_that_expands_without_measure_is_refused_before_it_has(
    size: int, words: str, coding: str, compress: Compress
) -> None:
    coded = compress(b" " * size)
    tracemalloc.start()
    try:
        with pytest.raises(BodyTooLarge, match=words):
            expand(coded, coding, lambda coded: coded, 64 * MB)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < max(4 * MB, 300 * len(coded))


@pytest.mark.parametrize(("coding", "compress"), CODINGS.values(), ids=CODINGS)
def test_a_body_may_be_as_large_as_one_that_is_not_compressed(coding: str, compress: Compress) -> None:
    assert len(expand(b" " * MB, coding, compress)) == MB
    with pytest.raises(BodyTooLarge, match=r"larger than 1 MB when it is decompressed \(server.max_body_mb\)"):
        expand(b" " * (MB + 1), coding, compress)


def test_a_body_may_have_several_members_or_frames() -> None:
    assert expand(b"", "gzip", lambda _: gzip.compress(b'{"a"') + gzip.compress(b":1}")) == b'{"a":1}'
    assert expand(b"", "zstd", lambda _: zstd.compress(b'{"a"') + zstd.compress(b":1}")) == b'{"a":1}'
    many = gzip.compress(b" " * 100_000) * 1000
    with pytest.raises(BodyTooLarge):
        decompress_body(many, "gzip", MB)


@pytest.mark.parametrize(("coding", "compress"), [CODINGS["gzip"], CODINGS["Zstandard"]])
def test_a_body_has_at_most_a_thousand_members_or_frames(coding: str, compress: Compress) -> None:
    content = bytes(range(256)) * 400
    assert expand(content, coding, lambda content: compress(b"") * 999 + compress(content)) == content
    with pytest.raises(BodyTooLarge, match="more than 1000 compressed members"):
        expand(content, coding, lambda content: compress(b"") * 1000 + compress(content))


@pytest.mark.parametrize(("coding", "compress"), [CODINGS["gzip"], CODINGS["Zstandard"]])
def test_many_empty_members_or_frames_take_no_time(coding: str, compress: Compress) -> None:
    """A copy of the rest for each one took seconds for this body, and minutes for the largest one."""
    empty = compress(b"")
    body = empty * (2_560_000 // len(empty))
    began = time.thread_time()
    with pytest.raises(BodyTooLarge):
        decompress_body(body, coding, 32 * MB)
    assert time.thread_time() - began < 0.5


@pytest.mark.parametrize(("coding", "compress"), [CODINGS["gzip"], CODINGS["Zstandard"]])
def test_members_may_begin_and_end_anywhere_in_a_body(coding: str, compress: Compress) -> None:
    contents = [random.Random(size).randbytes(size) for size in (65_000, 1, 65_536, 0, 200_000, 65_490, 30)]
    assert expand(b"", coding, lambda _: b"".join(map(compress, contents))) == b"".join(contents)


@pytest.mark.parametrize(("coding", "compress"), [CODINGS["deflate"], CODINGS["Brotli"]])
def test_nothing_may_follow_the_end_of_a_body(coding: str, compress: Compress) -> None:
    with pytest.raises(GatewayError):
        expand(b"{}", coding, lambda content: compress(content) + b"more")


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    config = {
        "providers": {"p": {"type": "scripted"}},
        "models": {"demo": {"provider": "p"}},
        "server": {"max_body_mb": 1},
    }
    with serving(config) as gateway:
        yield gateway


@pytest.mark.parametrize(("coding", "compress"), CODINGS.values(), ids=CODINGS)
@pytest.mark.parametrize("path", BODIES)
def test_every_api_takes_compressed_bodies(path: str, coding: str, compress: Compress, gateway: Gateway) -> None:
    headers = {"content-encoding": coding.strip(), "content-type": "application/json"}
    for padding in ("", "x" * 500_000):
        content = json.dumps({"model": "demo", **BODIES[path], "metadata": {"user_id": padding[:10]}, "x": padding})
        reply = httpx.post(
            gateway.url + path, content=compress(content.encode()), headers=headers, trust_env=False, timeout=60
        )
        assert reply.status_code in (200, 400), reply.text
        if reply.status_code == 400:  # an unknown field is refused by some APIs: the body was read
            assert "x" in reply.text
            assert "not valid" not in reply.text
    refused = httpx.post(
        gateway.url + path, content=b"{}", headers={"content-encoding": "lz4"}, trust_env=False, timeout=60
    )
    assert (refused.status_code, refused.headers["accept-encoding"]) == (415, "gzip, deflate, br, zstd")
    large = compress(json.dumps({"model": "demo", "x": "y" * 2_000_000}).encode())
    assert (
        httpx.post(gateway.url + path, content=large, headers=headers, trust_env=False, timeout=60).status_code == 413
    )
