"""A sample image for checks of image input: a small orange square as a PNG data URL."""

import base64
import struct
import zlib
from typing import Final

SAMPLE_IMAGE_COLOUR: Final = "orange"
"""The colour of the image. A model that does not see an image and guesses names red, blue or green."""

_ORANGE: Final = b"\xff\xa5\0"

_SIDE_PIXELS: Final = 64
"""Some models refuse images with sides of fewer than 28 pixels."""


def _encode_png_chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _encode_png() -> bytes:
    header = struct.pack(">IIBBBBB", _SIDE_PIXELS, _SIDE_PIXELS, 8, 2, 0, 0, 0)
    rows = (b"\0" + _ORANGE * _SIDE_PIXELS) * _SIDE_PIXELS
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_encode_png_chunk(kind, content) for kind, content in chunks)


SAMPLE_IMAGE_URL: Final = "data:image/png;base64," + base64.b64encode(_encode_png()).decode()
