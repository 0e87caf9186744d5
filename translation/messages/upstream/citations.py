"""Enables citations in a request, and converts the API's citations to annotations of the Responses API.

https://docs.claude.com/en/docs/build-with-claude/citations
"""

from collections.abc import Iterable, Iterator
from typing import Any

from translation.errors import ProtocolViolation
from translation.representation.json_types import Json


def annotation_of(citation: Any, start: int, end: int) -> Json | None:
    """Returns the annotation for a citation of the text from `start` to `end`, `None` if it cannot be represented.

    `start` and `end` are in characters of the message's text. Web pages and search results are cited by their URL,
    documents by their title, because documents in a request have no ids.
    """
    if not isinstance(citation, dict):
        return None
    match citation:
        case {"type": "web_search_result_location", "url": str(url)} | {
            "type": "search_result_location",
            "source": str(url),
        }:
            title = citation.get("title")
            span = {"start_index": start, "end_index": end}
            return {"type": "url_citation", "url": url, "title": title if isinstance(title, str) else "", **span}
        case {"type": "char_location" | "page_location" | "content_block_location"}:
            title, file_id = citation.get("document_title"), citation.get("file_id")
            return {
                "type": "file_citation",
                "file_id": file_id if isinstance(file_id, str) else "",
                "filename": title if isinstance(title, str) else "",
                "index": end,
            }
    return None


def read_citations(block: Json) -> list[Any]:
    """Returns the citations that a block of text begins with. Raises ProtocolViolation if they are not a list."""
    citations = block.get("citations") or []
    if not isinstance(citations, list):
        raise ProtocolViolation("the upstream sent `citations` that are not a list")
    return [*citations]


def enable_citations(messages: Iterable[Json]) -> None:
    """Enables citations for every document in the messages, in place.

    The API requires them on all documents or on none, including documents in tool results.
    """
    for document in _documents(messages):
        document["citations"] = {"enabled": True}


def _documents(messages: Iterable[Json]) -> Iterator[Json]:
    for message in messages:
        for block in message["content"]:
            if block["type"] == "tool_result":
                yield from (inner for inner in block.get("content") or () if inner["type"] == "document")
            elif block["type"] == "document":
                yield block
