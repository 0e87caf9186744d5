"""translation/gemini/usage.py, logprobs.py, grounding.py and failures.py"""

from typing import Any

import pytest

from translation.gemini.failures import failure_from_block, failure_from_finish, failure_in
from translation.gemini.grounding import build_url_citations
from translation.gemini.logprobs import read_logprobs
from translation.gemini.usage import read_usage
from translation.representation.events import Failed, Usage
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
        Usage(input=1, output=0, cache_read=1),
    ),
}


@pytest.mark.parametrize(("reported", "before", "expected"), USAGES.values(), ids=USAGES)
def test_tokens_are_counted(reported: Json, before: Usage | None, expected: Usage) -> None:
    expected.raw = reported
    assert read_usage(reported, before) == expected


def token(said: str, logprob: Any) -> Json:
    return {"token": said, "logProbability": logprob}


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


def grounded(segment: Any, *indices: Any, **chunk: Any) -> Json:
    chunks = [chunk or {"web": {"uri": "https://a", "title": "A"}}]
    return {
        "groundingMetadata": {
            "groundingChunks": chunks,
            "groundingSupports": [{"segment": segment, "groundingChunkIndices": list(indices)}],
        }
    }


def cited(start: int, end: int, url: str = "https://a", title: str = "A") -> Json:
    return {"type": "url_citation", "url": url, "title": title, "start_index": start, "end_index": end}


CITATIONS: dict[str, tuple[Json, list[Json]]] = {
    "bytes are counted as characters": (grounded({"startIndex": 0, "endIndex": 7}, 0), [cited(0, 5)]),
    "a segment is found by its words": (grounded({"endIndex": 3, "text": "aus"}, 0), [cited(6, 9)]),
    "words that are not there": (grounded({"endIndex": 7, "text": "von"}, 0), [cited(0, 5)]),
    "words where they are said to be": (grounded({"endIndex": 7, "text": "Grüße"}, 0), [cited(0, 5)]),
    "past the end": (grounded({"startIndex": 99, "endIndex": 999}, 0), [cited(9, 9)]),
    "the end before the start": (grounded({"startIndex": 7, "endIndex": 2}, 0), [cited(5, 5)]),
    "numbers that are none": (grounded({"startIndex": "x", "endIndex": None}, 0), [cited(0, 0)]),
    "each once": (grounded({"endIndex": 7}, 0, 0), [cited(0, 5)]),
    "sources that are not there": (grounded({}, 1, -1, "x"), []),
    "documents": (
        grounded({"endIndex": 7}, 0, retrievedContext={"uri": "https://d", "title": 7}),
        [cited(0, 5, "https://d", "")],
    ),
    "a source without an address": (grounded({}, 0, web={"title": "A"}), []),
    "a source of another kind": (grounded({}, 0, other={}), []),
    "recited": (
        {"citationMetadata": {"citationSources": [{"endIndex": 7, "uri": "https://r"}, {"license": "mit"}]}},
        [cited(0, 5, "https://r", "")],
    ),
    "recited, as Vertex says it": (
        {"citationMetadata": {"citations": [{"endIndex": 7, "uri": "https://r", "title": "R"}]}},
        [cited(0, 5, "https://r", "R")],
    ),
    "nothing of the right type": (
        {"groundingMetadata": {"groundingSupports": [7, {"segment": 7, "groundingChunkIndices": 7}]}},
        [],
    ),
    "nothing": ({"groundingMetadata": 7, "citationMetadata": 7}, []),
}


@pytest.mark.parametrize(("candidate", "expected"), CITATIONS.values(), ids=CITATIONS)
def test_sources_are_cited(candidate: Json, expected: list[Json]) -> None:
    assert build_url_citations(candidate, "Grüße aus") == expected


KEY = {"status": "INVALID_ARGUMENT", "message": "API key not valid", "details": [7, {"reason": "API_KEY_INVALID"}]}
OVERFLOW = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."

FAILURES: dict[str, tuple[Any, str]] = {
    "an overload": ({"status": "UNAVAILABLE", "message": "m"}, "upstream_overloaded"),
    "a quota": ({"status": "RESOURCE_EXHAUSTED", "message": "m"}, "rate_limited"),
    "too late": ({"status": "DEADLINE_EXCEEDED", "message": "m"}, "upstream_timeout"),
    "a key": (KEY, "upstream_unauthorized"),
    "a permission": ({"status": "PERMISSION_DENIED", "message": "key AIza…"}, "upstream_unauthorized"),
    "a prompt too long": ({"status": "INVALID_ARGUMENT", "message": OVERFLOW}, "context_length_exceeded"),
    "anything else": ({"status": "INTERNAL", "message": "m", "details": 7}, "upstream_error"),
    "a status that is none": ({"status": ["x"], "message": 7}, "upstream_error"),
    "words": ("boom", "upstream_error"),
}


@pytest.mark.parametrize(("error", "code"), FAILURES.values(), ids=FAILURES)
def test_a_failure_has_its_name(error: Any, code: str) -> None:
    failed = failure_in(error)
    assert failed.code == code
    assert failed.message
    assert "key" not in failed.message


def test_what_the_upstream_says_of_its_end_is_told() -> None:
    assert failure_from_finish("OTHER", {}) == Failed("upstream_error", "the model stopped with OTHER")
    assert failure_from_finish("OTHER", {"finishMessage": "m"}).message == "the model stopped with OTHER: m"
    assert failure_from_block({"blockReason": "SAFETY"}).message == "the upstream blocked the prompt (SAFETY)"
    assert failure_from_block({"blockReason": "X", "blockReasonMessage": "m"}).message.endswith("(X): m")
