"""Citations: how they are asked for, and what comes back as annotations of the Responses API.

https://docs.claude.com/en/docs/build-with-claude/citations
"""

from collections.abc import Iterable, Iterator
from typing import Any

from translation.representation.json_types import Json


def annotation_of(citation: Any, start: int, end: int) -> Json | None:
    """The annotation for a citation on the text from `start` to `end`; `None` for what is none.

    Pages and search results are cited by their address, documents by their title: they have no ids here.
    """
    if not isinstance(citation, dict):
        return None
    match citation:
        case {"type": "web_search_result_location", "url": str(url)} | {
            "type": "search_result_location",
            "source": str(url),
        }:
            title = citation.get("title")
            place = {"start_index": start, "end_index": end}
            return {"type": "url_citation", "url": url, "title": title if isinstance(title, str) else "", **place}
        case {"type": "char_location" | "page_location" | "content_block_location"}:
            title, file_id = citation.get("document_title"), citation.get("file_id")
            return {
                "type": "file_citation",
                "file_id": file_id if isinstance(file_id, str) else "",
                "filename": title if isinstance(title, str) else "",
                "index": end,
            }
    return None


def enable_citations(messages: Iterable[Json]) -> None:
    """Have the documents of a request cited: the API wants all of them or none, those in results of tools too."""
    for document in _documents(messages):
        document["citations"] = {"enabled": True}


def _documents(messages: Iterable[Json]) -> Iterator[Json]:
    for message in messages:
        for block in message["content"]:
            if block["type"] == "tool_result":
                yield from (inner for inner in block.get("content") or () if inner["type"] == "document")
            elif block["type"] == "document":
                yield block
