"""Converts Gemini's grounding and citation metadata to URL citations and searches of the Responses API.

https://ai.google.dev/gemini-api/docs/google-search#attributing_sources
"""

from collections.abc import Iterator
from typing import Any

from translation.gemini.upstream.details import SEARCH_DETAIL
from translation.representation.json_types import Item, Json
from translation.tools.searches import SEARCH_ITEM


def build_url_citations(candidate: Json, text: str) -> list[Json]:
    """Returns the citations of a candidate, without duplicates. `text` is its whole text.

    Gemini's offsets are in bytes of UTF-8. The offsets of the returned citations are in characters.
    """
    citations = [
        *_grounding_citations(_dict_or_empty(candidate.get("groundingMetadata")), text),
        *_source_citations(candidate, text),
    ]
    return [citation for position, citation in enumerate(citations) if citation not in citations[:position]]


def build_search(metadata: Json, item_id: str) -> Item | None:
    """Returns the item of the searches that a candidate's grounding metadata reports; None if there was none.

    It is one item, because the API lists the queries and the pages of a reply without saying which belong together.
    """
    queries = [query for query in _list_or_empty(metadata.get("webSearchQueries")) if isinstance(query, str) and query]
    if not queries:
        return None
    chunks = map(_dict_or_empty, _list_or_empty(metadata.get("groundingChunks")))
    pages = [page for chunk in chunks if isinstance((page := _dict_or_empty(chunk.get("web"))).get("uri"), str)]
    action = {"type": "search", "query": "; ".join(queries), "queries": queries, "sources": list(map(_source, pages))}
    details = [SEARCH_DETAIL]
    return {"id": item_id, "type": SEARCH_ITEM, "status": "completed", "action": action, "details": details}


def _source(page: Json) -> Json:
    title = page.get("title")
    return {"type": "url", "url": page["uri"]} | ({"title": title} if isinstance(title, str) and title else {})


def _grounding_citations(metadata: Json, text: str) -> Iterator[Json]:
    chunks = _list_or_empty(metadata.get("groundingChunks"))
    for support in map(_dict_or_empty, _list_or_empty(metadata.get("groundingSupports"))):
        segment = _dict_or_empty(support.get("segment"))
        for index in _list_or_empty(support.get("groundingChunkIndices")):
            if not isinstance(index, int) or not 0 <= index < len(chunks):
                continue
            chunk = _dict_or_empty(chunks[index])
            source = next(
                (_dict_or_empty(chunk[kind]) for kind in ("web", "retrievedContext", "maps") if kind in chunk), {}
            )
            if isinstance(source.get("uri"), str):
                yield _build_citation(source, _character_span(segment, text))


def _source_citations(candidate: Json, text: str) -> Iterator[Json]:
    metadata = _dict_or_empty(candidate.get("citationMetadata"))
    for source in map(
        _dict_or_empty, _list_or_empty(metadata.get("citationSources")) or _list_or_empty(metadata.get("citations"))
    ):
        if isinstance(source.get("uri"), str):
            yield _build_citation(source, _character_span(source, text))


def _build_citation(source: Json, span: tuple[int, int]) -> Json:
    title = source.get("title")
    return {
        "type": "url_citation",
        "url": source["uri"],
        "title": title if isinstance(title, str) else "",
        "start_index": span[0],
        "end_index": span[1],
    }


def _character_span(segment: Json, text: str) -> tuple[int, int]:
    """Returns start and end of a segment in characters. If the segment has a text, its position in `text` is used when
    it differs from the offsets, because in some streams these count from another position."""
    encoded = text.encode()
    start, end = (_clamp_offset(segment.get(key), len(encoded)) for key in ("startIndex", "endIndex"))
    segment_text = segment.get("text")
    first, last = (len(encoded[:offset].decode(errors="ignore")) for offset in (start, max(start, end)))
    if (
        isinstance(segment_text, str)
        and segment_text
        and text[first:last] != segment_text
        and (position := text.find(segment_text)) >= 0
    ):
        return position, position + len(segment_text)
    return first, last


def _clamp_offset(value: Any, maximum: int) -> int:
    return min(max(value, 0), maximum) if isinstance(value, int) else 0


def _dict_or_empty(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _list_or_empty(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
