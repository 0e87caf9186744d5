"""Token probabilities in the form Responses needs."""

from typing import Any

import pytest
from openai.types.responses.response_output_text import Logprob
from pydantic import TypeAdapter

from translation.chat.usage import read_logprobs
from translation.representation.json_types import Json


def token(text: str, **more: Any) -> Json:
    return {"token": text, "logprob": -0.5, **more}


FULL = token("a", bytes=[97], top_logprobs=[token("b", bytes=[98])])

CASES: dict[str, tuple[Any, list[Json] | None]] = {
    "the full form": ({"content": [FULL]}, [FULL]),
    "bytes that are null": (
        {"content": [token("é", bytes=None, top_logprobs=[token("ß")])]},
        [token("é", bytes=[195, 169], top_logprobs=[token("ß", bytes=[195, 159])])],
    ),
    "no rivals": ({"content": [token("a", bytes=[97], top_logprobs=None)]}, [token("a", bytes=[97], top_logprobs=[])]),
    "a refusal's": ({"content": None, "refusal": [FULL]}, [FULL]),
    "keys that Responses does not have": (
        {"content": [{**FULL, "id": 7}]},
        [FULL],
    ),
    "entries that are not complete": ({"content": [None, "a", {"token": "a"}, {"token": 1, "logprob": 0}]}, None),
    "an empty list": ({"content": []}, None),
    "none": (None, None),
    "the old form": ({"tokens": ["a"], "token_logprobs": [-0.5]}, None),
}


@pytest.mark.parametrize(("logprobs", "expected"), CASES.values(), ids=CASES)
def test_logprobs_become_the_full_form(logprobs: Any, expected: list[Json] | None) -> None:
    assert read_logprobs({"logprobs": logprobs}) == expected
    TypeAdapter(list[Logprob]).validate_python(expected or [], strict=True)
