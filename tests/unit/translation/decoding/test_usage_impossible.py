"""Token counts that cannot be counts are known by their names, for the log."""

from typing import Any

import pytest

from translation.decoding.usage import list_impossible_counts


@pytest.mark.parametrize(
    ("reported", "impossible"),
    [
        ({"prompt_tokens": -5, "completion_tokens": "a", "total_tokens": 3}, ["completion_tokens", "prompt_tokens"]),
        ({"input_tokens": True, "output_tokens": 1e30}, ["input_tokens", "output_tokens"]),
        ({"promptTokenCount": "x" * 100, "eval_count": 1}, ["promptTokenCount"]),
        ({"prompt_tokens": None, "completion_tokens_details": {"reasoning_tokens": -1}, "cost": "a"}, []),
        ({"prompt_tokens": 0, "completion_tokens": 1.0, "cached_tokens": []}, []),
    ],
)
def test_what_cannot_be_a_count_is_listed(reported: Any, impossible: list[str]) -> None:
    counts = list_impossible_counts(reported)
    assert sorted(counts) == impossible
    assert all(len(text) <= 40 for text in counts.values())
