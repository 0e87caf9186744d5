"""Reads documents by a parser service: says which files it is to convert, and reads the text out of its replies.

The server process sends the file; this side has neither sockets nor addresses.
"""

from typing import Final

import orjson

from gateway.retrieval.parsing.file_text import DocumentReader, clean_text
from gateway.retrieval.parsing.parsed_text import ParsingBounds, ServiceNeeded, UnreadableFile

_FORMATS: Final = ("md_content", "text_content")


def _hand_over(content: bytes, kind: str, bounds: ParsingBounds) -> str:
    raise ServiceNeeded(kind)


SERVICE_READER: Final = DocumentReader(_hand_over, None)


def read_reply(reply: bytes, bounds: ParsingBounds) -> str:
    """Returns the text in a reply of docling-serve. Raises UnreadableFile if it has none, or says that it failed."""
    try:
        body = orjson.loads(reply)
    except orjson.JSONDecodeError:
        body = None
    document = body.get("document") if isinstance(body, dict) else None
    if not isinstance(body, dict) or not isinstance(document, dict):
        raise UnreadableFile("server_error", "The parser service sent a reply that cannot be read.")
    if body.get("status", "success") != "success":
        raise UnreadableFile("invalid_file", "The parser service cannot read the whole file.")
    texts = [document[name] for name in _FORMATS if isinstance(document.get(name), str)]
    if not texts:
        raise UnreadableFile("server_error", "The parser service sent a reply without a text.")
    return clean_text(texts[0], bounds)
