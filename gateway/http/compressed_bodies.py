"""Decompresses request bodies, up to a size. What a few bytes expand to is bounded before it is made."""

import sys
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol, TypeAlias

from gateway.errors import BodyTooLarge, NotJson, UnsupportedEncoding

_MAX_RATIO: Final = 100
"""The most bytes for each byte of a compressed body. JSON of long conversations reaches 10 to 20."""

_FREE_BYTES: Final = 1024 * 1024
"""Bodies up to this size may be compressed to any ratio."""

_MAX_MEMBERS: Final = 1000
"""The most members of gzip or frames of Zstandard in a body. Clients send one, tools that compress in parallel send
hundreds."""

_BLOCK_BYTES: Final = 64 * 1024
"""How much of a body a decompressor gets at a time."""

_ZSTD_WINDOW_LOG: Final = 23
"""The largest window of Zstandard, 8 MiB, which RFC 9659 sets for HTTP. A decompressor reserves that much memory."""

_Decompress: TypeAlias = Callable[[bytes, int], bytes]
"""Returns the content of a body, or more than the given number of its bytes. Raises ValueError if it is corrupt."""


def find_coding(content_encoding: bytes) -> str | None:
    """Returns the name of the compression of a body by its `Content-Encoding`; None if it is not compressed.

    Raises UnsupportedEncoding for other codings, and for several.
    """
    coding = content_encoding.strip().lower().decode("latin-1")
    if coding in ("", "identity"):
        return None
    if coding == "x-gzip":  # the same by RFC 9110, section 8.4.1.3
        coding = "gzip"
    if coding not in _DECOMPRESSORS:
        known = ", ".join(_DECOMPRESSORS)
        raise UnsupportedEncoding(
            f"the body is encoded as {coding[:100]!r}: send it as {known}, or without content-encoding",
            headers={"accept-encoding": known},
        )
    return coding


def decompress_body(body: bytes, coding: str, max_bytes: int) -> bytes:
    """Returns the content of a compressed body. `coding` is a result of `find_coding`.

    Raises BodyTooLarge over `max_bytes`, if the ratio is one that no conversation has, or for more than `_MAX_MEMBERS`
    members, and NotJson for a body that is corrupt or cut off.
    """
    ratio_bytes = max(_FREE_BYTES, len(body) * _MAX_RATIO)
    try:
        content = _DECOMPRESSORS[coding](body, min(max_bytes, ratio_bytes))
    except ValueError as error:
        raise NotJson(f"the body is not valid {coding}: {error}") from None
    if len(content) > max_bytes:
        raise BodyTooLarge(
            f"the body is larger than {max_bytes / (1024 * 1024):g} MB when it is decompressed (server.max_body_mb)"
        )
    if len(content) > ratio_bytes:
        raise BodyTooLarge(f"the body expands to more than {_MAX_RATIO} times its size: send it without compression")
    return content


_CUT_OFF: Final = "it is cut off"
_TRAILING: Final = "something follows its end"


class _Decompressor(Protocol):
    """A decompressor of the standard library, for one member or frame."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: memoryview, max_length: int, /) -> bytes: ...


def _decompress_members(body: bytes, limit: int, begin_member: Callable[[], _Decompressor], max_members: int) -> bytes:
    """Decompresses members of gzip (RFC 1952) or frames of Zstandard (RFC 8878), one after another.

    The decompressor of a member copies what follows it in the same block, so the cost is bounded by small blocks and
    by the number of members. Many empty ones would otherwise cost the square of the body's size.
    """
    rest = memoryview(body)
    pieces: list[bytes] = []
    left = limit + 1
    for _ in range(max_members):
        decompressor = begin_member()
        while not decompressor.eof:
            if not rest:
                raise ValueError(_CUT_OFF)
            block = rest[:_BLOCK_BYTES]
            piece = decompressor.decompress(block, left)
            pieces.append(piece)
            left -= len(piece)
            if left <= 0:
                return b"".join(pieces)
            rest = rest[len(block) - len(decompressor.unused_data) :]
        if not rest:
            return b"".join(pieces)
    if max_members == 1:
        raise ValueError(_TRAILING)
    raise BodyTooLarge(f"the body has more than {max_members} compressed members: compress it as one")


def _inflate(body: bytes, limit: int, window_bits: int, max_members: int) -> bytes:
    try:
        return _decompress_members(body, limit, partial(zlib.decompressobj, window_bits), max_members)
    except zlib.error as error:
        raise ValueError(error) from None


def _inflate_either(body: bytes, limit: int) -> bytes:
    """Decompresses the coding `deflate`: with the frame of zlib, or without it, as some clients send it (RFC 9110,
    section 8.4.1.2)."""
    has_frame = len(body) > 1 and body[0] & 0x0F == zlib.DEFLATED and int.from_bytes(body[:2], "big") % 31 == 0
    return _inflate(body, limit, zlib.MAX_WBITS if has_frame else -zlib.MAX_WBITS, 1)


def _decompress_brotli(body: bytes, limit: int) -> bytes:
    import brotli  # few clients send it

    decompressor = brotli.Decompressor()
    pieces: list[bytes] = []
    size = 0
    try:
        while size <= limit:
            piece = decompressor.process(body, output_buffer_limit=limit + 1 - size)
            pieces.append(piece)
            size += len(piece)
            if decompressor.is_finished():
                break
            if not piece:
                raise ValueError(_CUT_OFF)
            body = b""
    except brotli.error as error:
        raise ValueError(error) from None
    return b"".join(pieces)


def _decompress_zstd(body: bytes, limit: int) -> bytes:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd

    options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG}
    try:
        return _decompress_members(body, limit, partial(zstd.ZstdDecompressor, options=options), _MAX_MEMBERS)
    except zstd.ZstdError as error:
        raise ValueError(error) from None


_DECOMPRESSORS: Final[Mapping[str, _Decompress]] = {
    "gzip": partial(_inflate, window_bits=16 + zlib.MAX_WBITS, max_members=_MAX_MEMBERS),
    "deflate": _inflate_either,
    "br": _decompress_brotli,
    "zstd": _decompress_zstd,
}
