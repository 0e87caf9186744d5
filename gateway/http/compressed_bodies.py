"""Decompresses request bodies, up to a size. What a few bytes expand to is bounded before it is made."""

from typing import Final

from dataplane.decompression import DECOMPRESSORS, TooManyMembers
from gateway.errors import BodyTooLarge, NotJson, UnsupportedEncoding

_MAX_RATIO: Final = 100
"""The most bytes for each byte of a compressed body. JSON of long conversations reaches 10 to 20."""

_FREE_BYTES: Final = 1024 * 1024
"""Bodies up to this size may be compressed to any ratio."""


def find_coding(content_encoding: bytes) -> str | None:
    """Returns the name of the compression of a body by its `Content-Encoding`; None if it is not compressed.

    Raises UnsupportedEncoding for other codings, and for several.
    """
    coding = content_encoding.strip().lower().decode("latin-1")
    if coding in ("", "identity"):
        return None
    if coding == "x-gzip":  # the same by RFC 9110, section 8.4.1.3
        coding = "gzip"
    if coding not in DECOMPRESSORS:
        known = ", ".join(DECOMPRESSORS)
        raise UnsupportedEncoding(
            f"the body is encoded as {coding[:100]!r}: send it as {known}, or without content-encoding",
            headers={"accept-encoding": known},
        )
    return coding


def decompress_body(body: bytes, coding: str, max_bytes: int) -> bytes:
    """Returns the content of a compressed body. `coding` is a result of `find_coding`.

    Raises BodyTooLarge over `max_bytes`, if the ratio is one that no conversation has, or for too many
    members, and NotJson for a body that is corrupt or cut off.
    """
    ratio_bytes = max(_FREE_BYTES, len(body) * _MAX_RATIO)
    try:
        content = DECOMPRESSORS[coding](body, min(max_bytes, ratio_bytes))
    except TooManyMembers as error:
        raise BodyTooLarge(f"the body has more than {error.most} compressed members: compress it as one") from None
    except ValueError as error:
        raise NotJson(f"the body is not valid {coding}: {error}") from None
    if len(content) > max_bytes:
        raise BodyTooLarge(
            f"the body is larger than {max_bytes / (1024 * 1024):g} MB when it is decompressed (server.max_body_mb)"
        )
    if len(content) > ratio_bytes:
        raise BodyTooLarge(f"the body expands to more than {_MAX_RATIO} times its size: send it without compression")
    return content
