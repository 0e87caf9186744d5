"""Sources of Gemini's answers, as citations."""

from typing import Any

import pytest

from translation.gemini.upstream.grounding import build_url_citations
from translation.representation.json_types import Json


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
    "words at their reported place": (grounded({"endIndex": 7, "text": "Grüße"}, 0), [cited(0, 5)]),
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
