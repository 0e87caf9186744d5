"""Token counts, wherever an upstream puts them."""

import pytest

from translation.chat.usage import read_usage
from translation.representation.events import Usage
from translation.representation.json_types import Json

CASES: dict[str, tuple[Json, Usage]] = {
    "the plain form": (
        {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
        Usage(input=5, output=2),
    ),
    "all details of the plain form": (
        {
            "prompt_tokens": 9,
            "completion_tokens": 8,
            "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 5},
        },
        Usage(input=9, output=8, cache_read=3, cache_write=4, reasoning=5),
    ),
    "vLLM's word for cache writes": (
        {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 0, "created_cache_tokens": 4}},
        Usage(input=9, cache_read=0, cache_write=4),
    ),
    "DeepSeek's word for cache hits": (
        {"prompt_tokens": 9, "prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 5},
        Usage(input=9, cache_read=4),
    ),
    "the words of the Responses API": ({"input_tokens": 5, "output_tokens": 2}, Usage(input=5, output=2)),
    "details that are null": (
        {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": None},
        Usage(input=5, output=2),
    ),
    "negative counts": ({"prompt_tokens": -5, "completion_tokens": -1}, Usage()),
    "more cached than read": (
        {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 9, "cache_write_tokens": 9}},
        Usage(input=5, cache_read=5, cache_write=5),
    ),
    "more reasoning than output": (
        {"completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 9}},
        Usage(output=5, reasoning=5),
    ),
    "reasoning beside the output, which the total tells": (
        {
            "prompt_tokens": 13,
            "completion_tokens": 1,
            "total_tokens": 400,
            "completion_tokens_details": {"reasoning_tokens": 386},
        },
        Usage(input=13, output=387, reasoning=386),
    ),
    "reasoning beside the output, of an empty answer": (
        {"prompt_tokens": 13, "completion_tokens": 0, "total_tokens": 20, "reasoning_tokens": 7},
        Usage(input=13, output=7, reasoning=7),
    ),
    "reasoning in the output": (
        {"prompt_tokens": 13, "completion_tokens": 9, "total_tokens": 22, "reasoning_tokens": 7},
        Usage(input=13, output=9, reasoning=7),
    ),
    "reasoning beside an output that is not known": (
        {"prompt_tokens": 13, "total_tokens": 20, "reasoning_tokens": 7},
        Usage(input=13, reasoning=7),
    ),
    "reasoning that only the total has, of Gemini's chat API": (
        {"prompt_tokens": 20, "completion_tokens": 424, "total_tokens": 1016},
        Usage(input=20, output=996),
    ),
    "a total that has cached tokens too": (
        {"prompt_tokens": 2, "completion_tokens": 4, "cache_read_input_tokens": 9, "total_tokens": 15},
        Usage(input=2, output=4, cache_read=2),
    ),
    "a total without an input": ({"completion_tokens": 4, "total_tokens": 15}, Usage(output=4)),
    "a total that is smaller": (
        {"prompt_tokens": 2, "completion_tokens": 4, "total_tokens": 4},
        Usage(input=2, output=4),
    ),
    "counts that are no numbers": (
        {"prompt_tokens": True, "completion_tokens": "7", "prompt_tokens_details": {"cached_tokens": None}},
        Usage(),
    ),
    "counts that count nothing": (
        {"prompt_tokens": 1e308, "input_tokens": 5, "completion_tokens": 2**64},
        Usage(input=5),
    ),
    "counts with a fraction": ({"prompt_tokens": 5.0}, Usage(input=5)),
    "details without their whole": ({"prompt_tokens_details": {"cached_tokens": 3}}, Usage(cache_read=3)),
    "nothing": ({}, Usage()),
}


@pytest.mark.parametrize(("reported", "usage"), CASES.values(), ids=CASES)
def test_usage_is_read_in_every_spelling(reported: Json, usage: Usage) -> None:
    usage.raw = reported
    assert read_usage(reported) == usage


def test_counts_never_fall() -> None:
    before = read_usage({"prompt_tokens": 9, "completion_tokens": 4})
    after = read_usage({"prompt_tokens": 7, "completion_tokens": 5}, before)
    assert (after.input, after.output) == (9, 5)


def test_each_report_of_a_stream_has_its_reasoning_in_the_output() -> None:
    details = "completion_tokens_details"
    before = read_usage(
        {"prompt_tokens": 9, "completion_tokens": 0, "total_tokens": 12, details: {"reasoning_tokens": 3}}
    )
    after = read_usage(
        {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 16, details: {"reasoning_tokens": 5}}, before
    )
    assert (before.output, before.reasoning, after.output, after.reasoning) == (3, 3, 7, 5)


def test_counts_that_are_not_repeated_are_preserved() -> None:
    before = read_usage({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 3}})
    after = read_usage({"completion_tokens": 5}, before)
    assert (after.input, after.output, after.cache_read) == (9, 5, 3)


def test_no_part_is_larger_than_a_whole_that_is_reported_after_it() -> None:
    before = read_usage({"prompt_tokens_details": {"cached_tokens": 3}})
    after = read_usage({"prompt_tokens": 2}, before)
    assert (before.cache_read, after.input, after.cache_read) == (3, 2, 2)
