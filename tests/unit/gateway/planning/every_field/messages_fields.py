"""Every field of a Messages request below its parameters, each once.

A case is named as the schema names the field: the object it is in, and its key.
"""

from typing import Any, Final

from tests.unit.gateway.planning.every_field.field_cases import Case
from translation.representation.json_types import Json

_HI: Final[Json] = {"role": "user", "content": "Hi"}
_SCHEMA: Final[Json] = {"type": "object", "properties": {}}
_FIELD: Final[Json] = {"type": "object", "properties": {"FIELD": {"type": "string"}}}
_PIXEL: Final[Json] = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
_PAPER: Final[Json] = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}
_CALL: Final[Json] = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}


def _body(*messages: Json, **more: Any) -> Json:
    return {"max_tokens": 5000, "messages": [*messages, _HI], **more}


def _user(*blocks: Json) -> Json:
    return {"role": "user", "content": [{"type": "text", "text": "See"}, *blocks]}


def _block(place: str, plain: Json | None, asked: Json, value: str | None = None) -> Case:
    before = _user() if plain is None else _user(plain)
    return Case(f"messages.content.{place}", _body(before), _body(_user(asked)), value)


def _assistant(place: str, plain: Json, asked: Json, value: str | None = None) -> Case:
    text = {"type": "text", "text": "So."}

    def body(block: Json) -> Json:
        return _body(_HI, {"role": "assistant", "content": [block, text]})

    return Case(f"messages.{place}", body(plain), body(asked), value)


def _called(call: Json, result: Json) -> Json:
    return _body(_HI, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]})


def _result(**more: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": "t1", "content": "done", **more}


def _loop(place: str, call: Json, result: Json, value: str | None = None) -> Case:
    return Case(f"messages.content.{place}", _called(_CALL, _result()), _called(call, result), value)


def _document(source: Json, **more: Any) -> Json:
    return {"type": "document", "source": source, **more}


def _text_source(text: str) -> Json:
    return {"type": "text", "media_type": "text/plain", "data": text}


def _search_result(**more: Any) -> Json:
    return {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "c"}], **more}


def _tool(place: str, asked: Json, value: str | None = None) -> Case:
    plain = {"name": "f", "input_schema": _SCHEMA}
    return Case(f"tools.{place}", _body(tools=[plain]), _body(tools=[{**plain, **asked}]), value)


def _choice(place: str, choice: Json) -> Case:
    tools = [{"name": name, "input_schema": _SCHEMA} for name in ("f", "g")]
    return Case(
        f"tool_choice.{place}",
        _body(tools=tools, tool_choice={"type": "auto"}),
        _body(tools=tools, tool_choice=choice),
    )


def _reminder(**more: Any) -> Json:
    return {"role": "system", "content": "FIRST", **more}


_SEARCH_USE: Final[Json] = {
    "type": "server_tool_use",
    "id": "srvtoolu_1",
    "name": "web_search",
    "input": {"query": "q"},
}

_SEARCH_RESULT: Final[Json] = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [{"type": "web_search_result", "url": "http://a", "title": "A", "encrypted_content": ""}],
}


def _searched(*blocks: Json) -> Case:
    """An earlier search, which an upstream gets whole or not at all."""

    def body(*before: Json) -> Json:
        return _body(_HI, {"role": "assistant", "content": [*before, {"type": "text", "text": "So"}]})

    return Case("messages.content", body(), body(*blocks))


def _searching(key: str, value: Any) -> Case:
    """A key of a search tool. An upstream without one loses the tool as a whole."""
    tool = {"type": "web_search_20250305", "name": "web_search", key: value}
    return Case(f"tools.{key}", _body(), _body(tools=[tool]))


def _compacted(*changes: Json) -> Case:
    """A summary of messages that have changed the tools."""
    tools = [{"name": "f", "input_schema": _SCHEMA}]

    def body(*tool_changes: Json) -> Json:
        block = {"type": "compaction", "content": "Before.", "tool_changes": list(tool_changes)}
        return _body({"role": "assistant", "content": [block]}, tools=tools)

    return Case("messages.content.tool_changes", body(), body(*changes))


_SERVER_CALL: Final[Json] = {"type": "mcp_tool_use", "id": "m1", "name": "f", "server_name": "s", "input": {}}
_SERVER_RESULT: Final[Json] = {"type": "mcp_tool_result", "tool_use_id": "m1", "content": "FIELD", "is_error": True}

_THOUGHT: Final[Json] = {"type": "thinking", "thinking": "Hm.", "signature": ""}

CASES: Final[dict[str, Case]] = {
    "TextBlock.text": _block("text", None, {"type": "text", "text": "FIELD"}, "FIELD"),
    "ImageBlock.source": _block("source", None, {"type": "image", "source": _PIXEL}, "iVBORw0KGgo="),
    "Base64Source.data": _block("source.data", None, {"type": "image", "source": _PIXEL}, "iVBORw0KGgo="),
    "Base64Source.media_type": _block("source", None, {"type": "image", "source": _PIXEL}),
    "UrlSource.url": _block(
        "source", None, {"type": "image", "source": {"type": "url", "url": "http://a/FIELD"}}, "FIELD"
    ),
    "FileSource.file_id": _block("source", None, {"type": "image", "source": {"type": "file", "file_id": "f"}}),
    "PlainTextSource.data": _block("source", None, _document(_text_source("FIELD")), "FIELD"),
    "BlocksSource.content": _block("source", None, _document({"type": "content", "content": "FIELD"}), "FIELD"),
    "DocumentBlock.source": _block("source", _document({**_PAPER, "data": "AAAA"}), _document(_PAPER), "JVBERi0="),
    "DocumentBlock.title": _block(
        "title", _document(_text_source("a")), _document(_text_source("a"), title="FIELD"), "FIELD"
    ),
    "DocumentBlock.context": _block(
        "context", _document(_text_source("a")), _document(_text_source("a"), context="FIELD"), "FIELD"
    ),
    "DocumentBlock.citations": _block("citations", _document(_PAPER), _document(_PAPER, citations={"enabled": True})),
    "Citations.enabled": _block("citations", _search_result(), _search_result(citations={"enabled": True})),
    "SearchResultBlock.citations": _block("citations", _search_result(), _search_result(citations={"enabled": True})),
    "SearchResultBlock.source": _block("source", _search_result(), _search_result(source="FIELD"), "FIELD"),
    "SearchResultBlock.title": _block("title", _search_result(), _search_result(title="FIELD"), "FIELD"),
    "SearchResultBlock.content": _block(
        "content", _search_result(), _search_result(content=[{"type": "text", "text": "FIELD"}]), "FIELD"
    ),
    "ThinkingBlock.thinking": _assistant("content", {"type": "text", "text": "So"}, {**_THOUGHT, "thinking": "FIELD"}),
    "RedactedThinkingBlock.data": _assistant(
        "content", {"type": "text", "text": "So"}, {"type": "redacted_thinking", "data": "x"}
    ),
    **{
        f"McpToolUseBlock.{key}": _assistant("content", {"type": "text", "text": "So"}, _SERVER_CALL)
        for key in ("name", "server_name", "input")
    },
    **{
        f"McpToolResultBlock.{key}": _assistant("content", {"type": "text", "text": "So"}, _SERVER_RESULT)
        for key in ("content", "is_error")
    },
    "CompactionBlock.content": _assistant(
        "content", {"type": "compaction", "content": "Before."}, {"type": "compaction", "content": "FIELD"}, "FIELD"
    ),
    "CompactionBlock.tool_changes": _compacted(
        {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "f"}}
    ),
    **{f"ServerToolUseBlock.{key}": _searched(_SEARCH_USE) for key in ("name", "input")},
    "WebSearchToolResultBlock.content": _searched(_SEARCH_USE, _SEARCH_RESULT),
    "WebSearchResult.url": _searched(_SEARCH_USE, _SEARCH_RESULT),
    "ToolUseBlock.name": _loop("name", {**_CALL, "name": "FIELD"}, _result(), "FIELD"),
    "ToolUseBlock.input": _loop("input", {**_CALL, "input": {"a": "FIELD"}}, _result(), "FIELD"),
    "ToolResultBlock.content": _loop("content", _CALL, _result(content="FIELD"), "FIELD"),
    "ToolResultBlock.is_error": _loop("is_error", _CALL, _result(is_error=True), "Error"),
    "InstructionMessage.content": Case(
        "messages.content", _body(_HI, _reminder()), _body(_HI, _reminder(content="FIELD")), "FIELD"
    ),
    "InstructionMessage.clear_at": Case(
        "messages.clear_at", _body(_HI, _reminder()), _body(_HI, _reminder(clear_at="next_user_message"))
    ),
    "InstructionMessage.output_config": Case(
        "messages.output_config", _body(_HI, _reminder()), _body(_HI, _reminder(output_config={"effort": "low"}))
    ),
    "UserMetadata.user_id": Case("metadata.user_id", _body(), _body(metadata={"user_id": "FIELD"}), "FIELD"),
    "EnabledThinking.budget_tokens": Case(
        "thinking.budget_tokens",
        _body(thinking={"type": "adaptive"}),
        _body(thinking={"type": "enabled", "budget_tokens": 2000}),
    ),
    "JsonFormat.schema": Case(
        "output_config.format",
        _body(output_config={"format": {"type": "json_schema", "schema": _SCHEMA}}),
        _body(output_config={"format": {"type": "json_schema", "schema": _FIELD}}),
        "FIELD",
    ),
    "OutputConfig.effort": Case("output_config.effort", _body(), _body(output_config={"effort": "high"})),
    "OutputConfig.format": Case(
        "output_config.format",
        _body(),
        _body(output_config={"format": {"type": "json_schema", "schema": _FIELD}}),
        "FIELD",
    ),
    "Tool.name": _tool("name", {"name": "FIELD"}, "FIELD"),
    "Tool.description": _tool("description", {"description": "FIELD"}, "FIELD"),
    "Tool.input_schema": _tool("input_schema", {"input_schema": _FIELD}, "FIELD"),
    "Tool.strict": _tool("strict", {"strict": True}),
    "Tool.defer_loading": _tool("defer_loading", {"defer_loading": True}),
    "Tool.max_uses": _searching("max_uses", 2),
    "Tool.allowed_domains": _searching("allowed_domains", ["FIELD.com"]),
    "Tool.blocked_domains": _searching("blocked_domains", ["FIELD.com"]),
    "Tool.user_location": _searching("user_location", {"type": "approximate", "city": "FIELD"}),
    "Choice.disable_parallel_tool_use": _choice(
        "disable_parallel_tool_use", {"type": "auto", "disable_parallel_tool_use": True}
    ),
    "NamedChoice.name": _choice("name", {"type": "tool", "name": "g"}),
    "NamedChoice.disable_parallel_tool_use": Case(
        "tool_choice.disable_parallel_tool_use",
        _choice("name", {"type": "tool", "name": "f"}).asked,
        _choice("name", {"type": "tool", "name": "f", "disable_parallel_tool_use": True}).asked,
    ),
}
