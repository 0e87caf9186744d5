"""What is asked of a model in either dialect, and what must then hold of its response."""

from collections.abc import Iterable
from typing import Final

import jsonschema_rs
import orjson

from gateway.doctor.checks.response_shape import answer_of, cut, text_of
from gateway.doctor.checks.verdicts import Untold, Wrong, hold
from translation.representation.json_types import Json

GREETING: Final = "Say hello."
COUNT: Final = "Count to 30."
COUNT_FURTHER: Final = (
    "Count to 30, and write every number on a line of its own, with nothing else before it or after it."
)
LIMIT: Final = 16
"""The fewest tokens that the Responses API lets anyone ask for."""
COUNT_TO_STOP: Final = "Count to 12."
STOP: Final = "12"
SUM_QUESTION: Final = "Give me JSON for 3 + 4."

_SUM: Final[Json] = {
    "type": "object",
    "properties": {name: {"type": "integer"} for name in ("a", "b", "sum")},
    "required": ["a", "b", "sum"],
    "additionalProperties": False,
}
SUM_FORM: Final[Json] = {"name": "sum", "schema": _SUM, "strict": True}


def held_to_limit(responses: Iterable[Json]) -> str:
    """Of responses to longer and longer questions, all of at most `LIMIT` tokens: one that is cut off says so. Raises
    Untold where none is."""
    for response in responses:
        written = (response.get("usage") or {}).get("output_tokens") or 0
        hold(written <= LIMIT, f"it wrote {written} tokens where {LIMIT} were asked for")
        if response["status"] == "incomplete":
            reason = response["incomplete_details"].get("reason")
            hold(reason == "max_output_tokens", f"it was cut off at its limit, and says {reason}")
            return ""
    raise Untold(f"it needed fewer than {LIMIT} tokens")


def held_to_stop(response: Json) -> str:
    """A response that was to stop before `STOP`."""
    hold(STOP not in text_of(response), "the stop sequence is in the answer")
    hold(response["status"] == "completed", cut(response) if response["incomplete_details"] else "")
    return ""


def held_to_sum(response: Json) -> str:
    """A response that was to fit `SUM_FORM`. Raises Untold where it was cut off."""
    answer = answer_of(response)
    if response["status"] == "incomplete":
        raise Untold(cut(response))
    try:
        jsonschema_rs.validate(_SUM, orjson.loads(answer))
    except orjson.JSONDecodeError:
        raise Wrong(f"the answer is no JSON: {answer[:80]}") from None
    except jsonschema_rs.ValidationError as error:
        raise Wrong(f"the answer does not fit its schema: {error.message}") from None
    return ""
