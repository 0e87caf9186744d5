"""Packs the gateway's sealed data into `thoughtSignature`, which clients send back, and unpacks it.

The API's signatures are bytes, which clients decode and encode again, in either alphabet of base64.
https://ai.google.dev/gemini-api/docs/thought-signatures
"""

from base64 import b64encode, urlsafe_b64decode
from binascii import Error
from collections.abc import Sequence
from typing import Final, NamedTuple

_MAGIC: Final = b"rgs1\n"
"""The beginning of every signature of this gateway."""

_THOUGHT: Final = b"t"
_CALL: Final = b"c"


class Signature(NamedTuple):
    """Sealed texts: of the thoughts before a part, and of the call in the part."""

    thoughts: Sequence[str] = ()
    call: str | None = None


def pack_signature(signature: Signature) -> str | None:
    """Returns the `thoughtSignature` of a part; None if there is no data for it."""
    lines = [_THOUGHT + thought.encode() for thought in signature.thoughts]
    if signature.call:
        lines.append(_CALL + signature.call.encode())
    return b64encode(_MAGIC + b"\n".join(lines)).decode() if lines else None


def unpack_signature(text: str | None) -> Signature:
    """Returns the data in a `thoughtSignature`: none if it comes from another server, or is damaged."""
    packed = _decode(text or "")
    if not packed.startswith(_MAGIC):
        return Signature()
    lines = packed.removeprefix(_MAGIC).split(b"\n")
    try:
        thoughts = [line[1:].decode() for line in lines if line[:1] == _THOUGHT]
        calls = [line[1:].decode() for line in lines if line[:1] == _CALL]
    except UnicodeDecodeError:
        return Signature()
    return Signature(thoughts, calls[0] if calls else None)


def _decode(text: str) -> bytes:
    text = text.replace("+", "-").replace("/", "_").rstrip("=")
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (Error, ValueError):
        return b""
