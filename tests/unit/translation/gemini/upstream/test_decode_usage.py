"""Token counts of Gemini's replies."""

import pytest

from translation.gemini.upstream.decode import read_usage
from translation.representation.events import Usage
from translation.representation.json_types import Json

USAGES: dict[str, tuple[Json, Usage | None, Usage]] = {
    "thoughts are inside the output, what tools read inside the input": (
        {
            "promptTokenCount": 10,
            "toolUsePromptTokenCount": 5,
            "cachedContentTokenCount": 4,
            "candidatesTokenCount": 3,
            "thoughtsTokenCount": 20,
        },
        None,
        Usage(input=15, output=23, cache_read=4, reasoning=20),
    ),
    "nothing": ({}, None, Usage()),
    "counts never fall": (
        {"promptTokenCount": 9, "candidatesTokenCount": 1},
        Usage(input=10, output=5, reasoning=2),
        Usage(input=10, output=5, reasoning=2),
    ),
    "no part is larger than its whole": (
        {"promptTokenCount": 1, "cachedContentTokenCount": 7, "candidatesTokenCount": -5},
        None,
        Usage(input=1, cache_read=1),
    ),
}


@pytest.mark.parametrize(("reported", "before", "expected"), USAGES.values(), ids=USAGES)
def test_tokens_are_counted(reported: Json, before: Usage | None, expected: Usage) -> None:
    expected.raw = reported
    assert read_usage(reported, before) == expected
