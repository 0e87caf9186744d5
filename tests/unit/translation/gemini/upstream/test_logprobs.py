"""Log probabilities of Gemini's replies."""

from typing import Any

import pytest

from translation.gemini.upstream.logprobs import read_logprobs
from translation.representation.json_types import Json


def token(content: str, logprob: Any) -> Json:
    return {"token": content, "logProbability": logprob}


LOGPROBS: dict[str, tuple[Any, list[Json] | None]] = {
    "tokens and their rivals": (
        {"chosenCandidates": [token("ü", -1)], "topCandidates": [{"candidates": [token("u", -2), token("v", None)]}]},
        [
            {
                "token": "ü",
                "logprob": -1,
                "bytes": [195, 188],
                "top_logprobs": [{"token": "u", "logprob": -2, "bytes": [117]}],
            }
        ],
    ),
    "rivals that are none": (
        {"chosenCandidates": [token("a", -1)], "topCandidates": [7]},
        [{"token": "a", "logprob": -1, "bytes": [97], "top_logprobs": []}],
    ),
    "tokens that are none": ({"chosenCandidates": [token("a", "x"), 7, {}]}, None),
    "no list": ({"chosenCandidates": 7}, None),
    "nothing": (None, None),
}


@pytest.mark.parametrize(("reported", "expected"), LOGPROBS.values(), ids=LOGPROBS)
def test_probabilities_are_read(reported: Any, expected: list[Json] | None) -> None:
    assert read_logprobs({"logprobsResult": reported}) == expected
