"""What an answer rests on, as citations. https://ai.google.dev/gemini-api/docs/google-search#attributing_sources"""

from collections.abc import Iterator
from typing import Any

from translation.representation.json_types import Json


def citations(candidate: Json, text: str) -> list[Json]:
    """The citations of a candidate on its whole text, each once.

    Gemini counts in bytes of UTF-8, clients in characters.
    """
    found = [*_grounded(_object(candidate.get("groundingMetadata")), text), *_cited(candidate, text)]
    return [each for position, each in enumerate(found) if each not in found[:position]]


def _grounded(metadata: Json, text: str) -> Iterator[Json]:
    chunks = _listed(metadata.get("groundingChunks"))
    for support in map(_object, _listed(metadata.get("groundingSupports"))):
        segment = _object(support.get("segment"))
        for index in _listed(support.get("groundingChunkIndices")):
            if not isinstance(index, int) or not 0 <= index < len(chunks):
                continue
            chunk = _object(chunks[index])
            source = next((_object(chunk[kind]) for kind in ("web", "retrievedContext", "maps") if kind in chunk), {})
            if isinstance(source.get("uri"), str):
                yield _citation(source, _span(segment, text))


def _cited(candidate: Json, text: str) -> Iterator[Json]:
    metadata = _object(candidate.get("citationMetadata"))
    for source in map(_object, _listed(metadata.get("citationSources")) or _listed(metadata.get("citations"))):
        if isinstance(source.get("uri"), str):
            yield _citation(source, _span(source, text))


def _citation(source: Json, span: tuple[int, int]) -> Json:
    title = source.get("title")
    return {
        "type": "url_citation",
        "url": source["uri"],
        "title": title if isinstance(title, str) else "",
        "start_index": span[0],
        "end_index": span[1],
    }


def _span(segment: Json, text: str) -> tuple[int, int]:
    """In characters. A segment's own words go before its numbers, which count from elsewhere in some streams."""
    encoded = text.encode()
    start, end = (_count(segment.get(key), len(encoded)) for key in ("startIndex", "endIndex"))
    said = segment.get("text")
    first, last = (len(encoded[:place].decode(errors="ignore")) for place in (start, max(start, end)))
    if isinstance(said, str) and said and text[first:last] != said and (at := text.find(said)) >= 0:
        return at, at + len(said)
    return first, last


def _count(value: Any, most: int) -> int:
    return min(max(value, 0), most) if isinstance(value, int) else 0


def _object(found: Any) -> Json:
    return found if isinstance(found, dict) else {}


def _listed(found: Any) -> list[Any]:
    return found if isinstance(found, list) else []
