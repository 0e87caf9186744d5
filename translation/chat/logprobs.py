"""Token probabilities of a chat reply."""

from translation import logprobs
from translation.json_types import Json


def read_logprobs(choice: Json) -> list[Json] | None:
    """The tokens of a choice's text in the full Responses form; `None` where none were sent."""
    reported = choice.get("logprobs")
    if not isinstance(reported, dict):
        return None
    return logprobs.read_logprobs(reported.get("content") or reported.get("refusal"))
