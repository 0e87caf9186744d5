"""Decompresses the codings of HTTP, up to a size. What a few bytes expand to is bounded before it is made."""

import sys
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol, TypeAlias

_MAX_MEMBERS: Final = 1000
"""The most members of gzip or frames of Zstandard. Most have one, tools that compress in parallel write hundreds."""

_BLOCK_BYTES: Final = 64 * 1024
"""How much a decompressor gets at a time."""

_ZSTD_WINDOW_LOG: Final = 23
"""The largest window of Zstandard, 8 MiB, which RFC 9659 sets for HTTP. A decompressor reserves that much memory."""

Decompress: TypeAlias = Callable[[bytes, int], bytes]
"""Returns the decompressed content, or more than the given number of its bytes.

Raises ValueError if it is corrupt, and TooManyMembers.
"""


class TooManyMembers(Exception):
    """Some bytes have more than `most` compressed members."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.most: Final = most


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
    raise TooManyMembers(max_members)


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
    import brotli  # little is compressed with it

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


DECOMPRESSORS: Final[Mapping[str, Decompress]] = {
    "gzip": partial(_inflate, window_bits=16 + zlib.MAX_WBITS, max_members=_MAX_MEMBERS),
    "deflate": _inflate_either,
    "br": _decompress_brotli,
    "zstd": _decompress_zstd,
}
"""Coding of HTTP -> the function that decompresses it."""
