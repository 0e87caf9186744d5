"""The prompts that the checks of both dialects share, and the requirements on their responses."""

import base64
import struct
import zlib
from collections.abc import Callable, Iterable
from typing import Final

import jsonschema_rs
import orjson

from gateway.doctor.checks.response_validation import describe_cutoff, message_text_of, require_text
from gateway.doctor.checks.verdicts import CheckFailed, Inconclusive, require
from translation.representation.json_types import Json

GREETING_PROMPT: Final = "Say hello."
COUNT_PROMPT: Final = "Count to 30."
LONG_COUNT_PROMPT: Final = (
    "Count to 30, and write every number on a line of its own, with nothing else before it or after it."
)
TOKEN_LIMIT: Final = 16
"""The smallest `max_output_tokens` that the Responses API accepts."""
STOP_PROMPT: Final = "Count to 12."
STOP_SEQUENCE: Final = "12"
SUM_PROMPT: Final = "Give me JSON for 3 + 4."

_SUM_SCHEMA: Final[Json] = {
    "type": "object",
    "properties": {name: {"type": "integer"} for name in ("a", "b", "sum")},
    "required": ["a", "b", "sum"],
    "additionalProperties": False,
}
SUM_FORMAT: Final[Json] = {"name": "sum", "schema": _SUM_SCHEMA, "strict": True}

SAMPLE_IMAGE_COLOUR: Final = "orange"
"""The colour of the image. A model that does not see an image and guesses names red, blue or green."""

_ORANGE: Final = b"\xff\xa5\0"

_SIDE_PIXELS: Final = 64
"""Some models refuse images with sides of fewer than 28 pixels."""


def verify_token_limit(responses: Iterable[Json]) -> str:
    """Checks that a response that reaches `TOKEN_LIMIT` tokens is incomplete for that reason. Returns "".

    `responses` belong to prompts with longer and longer answers. Raises Inconclusive if none of them is cut off, and
    CheckFailed if one exceeds the limit or has another reason.
    """
    for response in responses:
        output_tokens = (response.get("usage") or {}).get("output_tokens") or 0
        require(output_tokens <= TOKEN_LIMIT, f"it wrote {output_tokens} tokens, but the limit was {TOKEN_LIMIT}")
        if response["status"] == "incomplete":
            reason = response["incomplete_details"].get("reason")
            require(reason == "max_output_tokens", f"it was cut off at its limit, but the reason is {reason}")
            return ""
    raise Inconclusive(f"it needed fewer than {TOKEN_LIMIT} tokens")


def verify_stop(response: Json, request_unstopped: Callable[[], Json]) -> str:
    """Checks a response that had to stop before `STOP_SEQUENCE`. Returns "".

    `request_unstopped` requests the same without a stop sequence. Raises CheckFailed, and Inconclusive if that answer
    does not contain `STOP_SEQUENCE` either.
    """
    require(STOP_SEQUENCE not in message_text_of(response), "the stop sequence is in the answer")
    require(response["status"] == "completed", describe_cutoff(response) if response["incomplete_details"] else "")
    if STOP_SEQUENCE not in message_text_of(request_unstopped()):
        raise Inconclusive(f"its answer to {STOP_PROMPT!r} does not contain {STOP_SEQUENCE} without a stop either")
    return ""


def verify_sum_format(response: Json) -> str:
    """Checks that a response's text fits `SUM_FORMAT`. Returns "".

    Raises CheckFailed if it does not, and Inconclusive if the response was cut off.
    """
    answer = require_text(response)
    if response["status"] == "incomplete":
        raise Inconclusive(describe_cutoff(response))
    try:
        jsonschema_rs.validate(_SUM_SCHEMA, orjson.loads(answer))
    except orjson.JSONDecodeError:
        raise CheckFailed(f"the answer is not JSON: {answer[:80]}") from None
    except jsonschema_rs.ValidationError as error:
        raise CheckFailed(f"the answer does not fit its schema: {error.message}") from None
    return ""


def _encode_png_chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _encode_png() -> bytes:
    header = struct.pack(">IIBBBBB", _SIDE_PIXELS, _SIDE_PIXELS, 8, 2, 0, 0, 0)
    rows = (b"\0" + _ORANGE * _SIDE_PIXELS) * _SIDE_PIXELS
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_encode_png_chunk(kind, content) for kind, content in chunks)


SAMPLE_IMAGE_URL: Final = "data:image/png;base64," + base64.b64encode(_encode_png()).decode()
