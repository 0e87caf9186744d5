"""What is asked of a model in either dialect, and what must then hold of its response."""

from collections.abc import Iterable
from typing import Final

import jsonschema_rs
import orjson

from gateway.doctor.checks.response_shape import describe_cutoff, message_text_of, require_text
from gateway.doctor.checks.verdicts import CheckFailed, Inconclusive, require
from translation.representation.json_types import Json

GREETING_PROMPT: Final = "Say hello."
COUNT_PROMPT: Final = "Count to 30."
LONG_COUNT_PROMPT: Final = (
    "Count to 30, and write every number on a line of its own, with nothing else before it or after it."
)
TOKEN_LIMIT: Final = 16
"""The fewest tokens that the Responses API lets anyone ask for."""
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


def verify_token_limit(responses: Iterable[Json]) -> str:
    """Of responses to longer and longer questions, all of at most `LIMIT` tokens: one that is cut off says so. Raises
    Untold where none is."""
    for response in responses:
        written = (response.get("usage") or {}).get("output_tokens") or 0
        require(written <= TOKEN_LIMIT, f"it wrote {written} tokens where {TOKEN_LIMIT} were asked for")
        if response["status"] == "incomplete":
            reason = response["incomplete_details"].get("reason")
            require(reason == "max_output_tokens", f"it was cut off at its limit, and says {reason}")
            return ""
    raise Inconclusive(f"it needed fewer than {TOKEN_LIMIT} tokens")


def verify_stop(response: Json) -> str:
    """A response that was to stop before `STOP`."""
    require(STOP_SEQUENCE not in message_text_of(response), "the stop sequence is in the answer")
    require(response["status"] == "completed", describe_cutoff(response) if response["incomplete_details"] else "")
    return ""


def verify_sum_format(response: Json) -> str:
    """A response that was to fit `SUM_FORM`. Raises Untold where it was cut off."""
    answer = require_text(response)
    if response["status"] == "incomplete":
        raise Inconclusive(describe_cutoff(response))
    try:
        jsonschema_rs.validate(_SUM_SCHEMA, orjson.loads(answer))
    except orjson.JSONDecodeError:
        raise CheckFailed(f"the answer is no JSON: {answer[:80]}") from None
    except jsonschema_rs.ValidationError as error:
        raise CheckFailed(f"the answer does not fit its schema: {error.message}") from None
    return ""
