"""Decompresses request bodies, up to a size. What a few bytes expand to is bounded before it is made."""

import sys
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeAlias

from gateway.errors import BodyTooLarge, NotJson, UnsupportedEncoding

_MAX_RATIO: Final = 100
"""The most bytes for each byte of a compressed body. JSON of long conversations reaches 10 to 20."""

_FREE_BYTES: Final = 1024 * 1024
"""Bodies up to this size may be compressed to any ratio."""

_GZIP_BITS: Final = 16 + zlib.MAX_WBITS
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

    Raises BodyTooLarge over `max_bytes`, or if the ratio is one that no conversation has, and NotJson for a body that
    is corrupt or cut off.
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


def _inflate(body: bytes, limit: int, window_bits: int) -> bytes:
    """Decompresses DEFLATE. A body in the format of gzip may have several members (RFC 1952)."""
    pieces: list[bytes] = []
    left = limit + 1
    while left > 0:
        decompressor = zlib.decompressobj(window_bits)
        try:
            piece = decompressor.decompress(body, left)
        except zlib.error as error:
            raise ValueError(error) from None
        pieces.append(piece)
        left -= len(piece)
        if left > 0 and not decompressor.eof:
            raise ValueError(_CUT_OFF)
        body = decompressor.unused_data
        if not body:
            break
        if window_bits != _GZIP_BITS:
            raise ValueError(_TRAILING)
    return b"".join(pieces)


def _inflate_either(body: bytes, limit: int) -> bytes:
    """Decompresses the coding `deflate`: with the frame of zlib, or without it, as some clients send it (RFC 9110,
    section 8.4.1.2)."""
    has_frame = len(body) > 1 and body[0] & 0x0F == zlib.DEFLATED and int.from_bytes(body[:2], "big") % 31 == 0
    return _inflate(body, limit, zlib.MAX_WBITS if has_frame else -zlib.MAX_WBITS)


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
    """Decompresses Zstandard, which may have several frames (RFC 8878)."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd

    pieces: list[bytes] = []
    left = limit + 1
    while left > 0:
        decompressor = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG})
        try:
            piece = decompressor.decompress(body, left)
        except zstd.ZstdError as error:
            raise ValueError(error) from None
        pieces.append(piece)
        left -= len(piece)
        if left > 0 and not decompressor.eof:
            raise ValueError(_CUT_OFF)
        body = decompressor.unused_data
        if not body:
            break
    return b"".join(pieces)


_DECOMPRESSORS: Final[Mapping[str, _Decompress]] = {
    "gzip": partial(_inflate, window_bits=_GZIP_BITS),
    "deflate": _inflate_either,
    "br": _decompress_brotli,
    "zstd": _decompress_zstd,
}
