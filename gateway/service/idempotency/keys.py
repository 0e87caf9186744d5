"""Reads the header `Idempotency-Key`."""

from hashlib import sha256
from typing import Final

import orjson

from gateway.state.idempotency import KeyedRequest
from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.representation.loss import Loss

KEY_HEADER: Final = b"idempotency-key"

KEY_IGNORED: Final = Loss("Idempotency-Key", "ignored")
"""The loss of a response that is not stored: if its request is sent again, it is run again."""

_MAX_KEY_CHARS: Final = 255
_FORM_PARAMS: Final = frozenset({"stream", "stream_options"})
"""Parameters that say how a response is sent, and not what it is."""


def read_keyed_request(header: bytes, body: Json) -> KeyedRequest:
    """Returns the key of a request with the digest of its body. Raises InvalidRequest for a malformed key.

    Whether the response is streamed makes no difference: clients whose stream broke ask for JSON, and mean the same.
    """
    key = header.decode("latin-1")
    if not (key.isascii() and key.isprintable() and 0 < len(key) <= _MAX_KEY_CHARS):
        raise InvalidRequest(
            f"Idempotency-Key must be 1 to {_MAX_KEY_CHARS} printable ASCII characters, such as a UUID",
            param="Idempotency-Key",
        )
    content = {name: value for name, value in body.items() if name not in _FORM_PARAMS}
    return KeyedRequest(key=key, digest=sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest())
