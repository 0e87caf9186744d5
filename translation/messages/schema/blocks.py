"""The shapes of content blocks in requests of the Messages API, as typed dictionaries that pydantic validates.

https://platform.claude.com/docs/en/api/messages
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, Required, TypeAlias

from pydantic import Discriminator, Field, Tag
from typing_extensions import TypedDict

from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.validation import Name


def discriminate_known(key: str, known: frozenset[str]) -> Discriminator:
    """Returns a discriminator by a key, in which every value that is not `known` has the tag `other`.

    What is not known here may be known to an upstream of the same API.
    """

    def choose(value: Any) -> str | None:
        kind = value.get(key) if isinstance(value, dict) else None
        if not isinstance(kind, str):
            return None
        return kind if kind in known else "other"

    choose.__name__ = key
    return Discriminator(choose)


def require_known(value: str | None, param: str, known: Sequence[str]) -> None:
    """Raises InvalidRequest for a value that is not known here, unless it is None."""
    if value is not None and value not in known:
        *most, last = map(repr, known)
        raise InvalidRequest(
            f"Invalid value for '{param}': {value!r:.100}. Expected {', '.join(most)} or {last}.",
            param=param,
            code="invalid_value",
        )


class TextBlock(TypedDict, total=False):
    type: Required[Literal["text"]]
    text: Required[str]


class Base64Source(TypedDict, total=False):
    type: Required[Literal["base64"]]
    media_type: Required[str]
    data: Required[str]


class UrlSource(TypedDict, total=False):
    type: Required[Literal["url"]]
    url: Required[str]


class FileSource(TypedDict, total=False):
    """A file of Anthropic's Files API."""

    type: Required[Literal["file"]]
    file_id: Required[str]


class PlainTextSource(TypedDict, total=False):
    type: Required[Literal["text"]]
    media_type: str | None
    data: Required[str]


class OtherSource(TypedDict, total=False):
    """A source of a type that is not listed here."""

    type: Required[str]


IMAGE_SOURCES: Final = ("base64", "url", "file")
DOCUMENT_SOURCES: Final = (*IMAGE_SOURCES, "text", "content")

ImageSource: TypeAlias = Annotated[
    Annotated[Base64Source, Tag("base64")]
    | Annotated[UrlSource, Tag("url")]
    | Annotated[FileSource, Tag("file")]
    | Annotated[OtherSource, Tag("other")],
    discriminate_known("type", frozenset(IMAGE_SOURCES)),
]


class ImageBlock(TypedDict, total=False):
    type: Required[Literal["image"]]
    source: Required[ImageSource]


class OtherBlock(TypedDict, total=False):
    """A block of a type that is not listed here. Only an upstream of the same API can have a use for it."""

    type: Required[str]


SOURCE_BLOCKS: Final = ("text", "image")
"""The types of the blocks that documents are made of."""

SourceBlock: TypeAlias = Annotated[
    Annotated[TextBlock, Tag("text")] | Annotated[ImageBlock, Tag("image")] | Annotated[OtherBlock, Tag("other")],
    discriminate_known("type", frozenset(SOURCE_BLOCKS)),
]


class BlocksSource(TypedDict, total=False):
    """A document made of blocks."""

    type: Required[Literal["content"]]
    content: Required[str | Annotated[list[SourceBlock], Field(fail_fast=True)]]


DocumentSource: TypeAlias = Annotated[
    Annotated[Base64Source, Tag("base64")]
    | Annotated[UrlSource, Tag("url")]
    | Annotated[FileSource, Tag("file")]
    | Annotated[PlainTextSource, Tag("text")]
    | Annotated[BlocksSource, Tag("content")]
    | Annotated[OtherSource, Tag("other")],
    discriminate_known("type", frozenset(DOCUMENT_SOURCES)),
]


class Citations(TypedDict, total=False):
    enabled: bool | None


class DocumentBlock(TypedDict, total=False):
    type: Required[Literal["document"]]
    source: Required[DocumentSource]
    title: str | None
    context: str | None
    citations: Citations | None


class SearchResultBlock(TypedDict, total=False):
    type: Required[Literal["search_result"]]
    source: Required[str]
    title: Required[str]
    content: Required[list[TextBlock]]
    citations: Citations | None


class ThinkingBlock(TypedDict, total=False):
    type: Required[Literal["thinking"]]
    thinking: Required[str]
    signature: str | None


class RedactedThinkingBlock(TypedDict, total=False):
    type: Required[Literal["redacted_thinking"]]
    data: Required[str]


class ToolUseBlock(TypedDict, total=False):
    type: Required[Literal["tool_use"]]
    id: Required[Name]
    name: Required[Name]
    input: Required[Json]


class McpToolUseBlock(TypedDict, total=False):
    """A call of a tool of an MCP server, which the API ran."""

    type: Required[Literal["mcp_tool_use"]]
    id: Required[Name]
    name: Required[Name]
    server_name: Required[Name]
    input: Required[Json]


class McpToolResultBlock(TypedDict, total=False):
    type: Required[Literal["mcp_tool_result"]]
    tool_use_id: Required[Name]
    content: str | Annotated[list[TextBlock], Field(fail_fast=True)] | None
    is_error: bool | None


class ServerToolUseBlock(TypedDict, total=False):
    """A call of a tool that the API ran itself, such as a search."""

    type: Required[Literal["server_tool_use"]]
    id: Required[Name]
    name: Required[Name]
    input: Required[Json]


class WebSearchResult(TypedDict, total=False):
    """A page that a search has found. Only the server that found it can read its `encrypted_content`."""

    type: str | None
    url: Required[str]
    title: str | None
    encrypted_content: str | None
    page_age: str | None


class WebSearchToolResultBlock(TypedDict, total=False):
    type: Required[Literal["web_search_tool_result"]]
    tool_use_id: Required[Name]
    content: Required[Annotated[list[WebSearchResult], Field(fail_fast=True)] | Json]


class CompactionBlock(TypedDict, total=False):
    """A summary of everything before it. Without `content` the compaction failed."""

    type: Required[Literal["compaction"]]
    content: str | None
    encrypted_content: str | None
    signature: str | None
    tool_changes: list[Json] | None


_RESULT_TYPES = frozenset({"text", "image", "document", "search_result"})
_BLOCK_TYPES = _RESULT_TYPES | {
    "thinking",
    "redacted_thinking",
    "tool_use",
    "tool_result",
    "mcp_tool_use",
    "mcp_tool_result",
    "server_tool_use",
    "web_search_tool_result",
    "compaction",
}


ResultBlock: TypeAlias = Annotated[
    Annotated[TextBlock, Tag("text")]
    | Annotated[ImageBlock, Tag("image")]
    | Annotated[DocumentBlock, Tag("document")]
    | Annotated[SearchResultBlock, Tag("search_result")]
    | Annotated[OtherBlock, Tag("other")],
    discriminate_known("type", _RESULT_TYPES),
]


class ToolResultBlock(TypedDict, total=False):
    type: Required[Literal["tool_result"]]
    tool_use_id: Required[Name]
    content: str | Annotated[list[ResultBlock], Field(fail_fast=True)] | None
    is_error: bool | None


Block: TypeAlias = Annotated[
    Annotated[TextBlock, Tag("text")]
    | Annotated[ImageBlock, Tag("image")]
    | Annotated[DocumentBlock, Tag("document")]
    | Annotated[SearchResultBlock, Tag("search_result")]
    | Annotated[ThinkingBlock, Tag("thinking")]
    | Annotated[RedactedThinkingBlock, Tag("redacted_thinking")]
    | Annotated[ToolUseBlock, Tag("tool_use")]
    | Annotated[ToolResultBlock, Tag("tool_result")]
    | Annotated[McpToolUseBlock, Tag("mcp_tool_use")]
    | Annotated[McpToolResultBlock, Tag("mcp_tool_result")]
    | Annotated[ServerToolUseBlock, Tag("server_tool_use")]
    | Annotated[WebSearchToolResultBlock, Tag("web_search_tool_result")]
    | Annotated[CompactionBlock, Tag("compaction")]
    | Annotated[OtherBlock, Tag("other")],
    discriminate_known("type", _BLOCK_TYPES),
]

Content: TypeAlias = str | Annotated[list[Block], Field(fail_fast=True)]
