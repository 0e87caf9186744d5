"""Every field of a Chat Completions request below its parameters, each once.

A case is named as the schema names the field: the object it is in, and its key.
"""

from typing import Any, Final

from tests.unit.gateway.planning.every_field.field_cases import Case
from translation.representation.json_types import Json

_PIXEL: Final = "data:image/png;base64,iVBORw0KGgo="
_PAPER: Final = "data:application/pdf;base64,JVBERi0="
_HI: Final[Json] = {"role": "user", "content": "Hi"}
_PARAMETERS: Final[Json] = {"type": "object", "properties": {}}
_FIELD: Final[Json] = {"type": "object", "properties": {"FIELD": {"type": "string"}}}


def _body(*messages: Json, **more: Any) -> Json:
    return {"messages": [*messages, _HI], **more}


def _message(place: str, message: Json, more: Json, *after: Json, value: str | None = None) -> Case:
    return Case(f"messages.{place}", _body(message, *after), _body({**message, **more}, *after), value)


def _part(place: str, part: Json | None, asked: Json, value: str | None = None) -> Case:
    def body(*parts: Json) -> Json:
        return {"messages": [{"role": "user", "content": [{"type": "text", "text": "See"}, *parts]}]}

    return Case(f"messages.content.{place}", body(part) if part else body(), body(asked), value)


def _image(**more: str) -> Json:
    return {"type": "image_url", "image_url": {"url": _PIXEL, **more}}


def _audio(**more: str) -> Json:
    return {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav", **more}}


def _file(**more: str) -> Json:
    return {"type": "file", "file": {"file_data": _PAPER, "filename": "a.pdf", **more}}


def _nameless() -> Json:
    return {"type": "file", "file": {"file_data": _PAPER}}


def _function(**more: Any) -> Json:
    return {"type": "function", "function": {"name": "f", "parameters": _PARAMETERS, **more}}


def _custom(**more: Any) -> Json:
    return {"type": "custom", "custom": {"name": "f", **more}}


def _grammar(syntax: str) -> Json:
    return _custom(format={"type": "grammar", "grammar": {"syntax": syntax, "definition": "start: X"}})


def _tool(place: str, plain: Json, asked: Json, value: str | None = None) -> Case:
    return Case(f"tools.{place}", _body(tools=[plain]), _body(tools=[asked]), value)


def _chosen(place: str, choice: Json, *tools: Json) -> Case:
    return Case(
        f"tool_choice.{place}", _body(tools=[*tools], tool_choice="auto"), _body(tools=[*tools], tool_choice=choice)
    )


def _allowed(name: str, mode: str) -> Json:
    named = [{"type": "function", "function": {"name": name}}]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": named}}


def _format(key: str, value: Any, needle: str | None = None) -> Case:
    shape = {"name": "n", "schema": _PARAMETERS}
    plain, asked = (
        _body(response_format={"type": "json_schema", "json_schema": each}) for each in (shape, {**shape, key: value})
    )
    return Case(f"response_format.json_schema.{key}", plain, asked, needle)


def _param(name: str, key: str, value: Any, **beside: Any) -> Case:
    return Case(f"{name}.{key}", _body(**beside), _body(**beside, **{name: {key: value}}))


def _called(said: Json, output: str = "done") -> list[Json]:
    kind = "custom" if "input" in said else "function"
    return [
        {"role": "assistant", "tool_calls": [{"id": "c1", "type": kind, kind: said}]},
        {"role": "tool", "tool_call_id": "c1", "content": output},
    ]


def _call(place: str, said: Json, value: str) -> Case:
    return Case(f"messages.tool_calls.{place}", _body(), _body(*_called(said)), value)


def _answer(key: str, value: Any, needle: str | None = None, **beside: Any) -> Case:
    return _message(key, {"role": "assistant", "content": "Hm", **beside}, {key: value}, value=needle)


def _searched(place: Json) -> Json:
    return _body(web_search_options={"user_location": {"type": "approximate", "approximate": place}})


_OLD: Final[Json] = {"functions": [_function()["function"]]}

CASES: Final[dict[str, Case]] = {
    "AllowedTools.mode": _chosen("allowed_tools.mode", _allowed("f", "required"), _function()),
    "AllowedTools.tools": _chosen("allowed_tools.tools", _allowed("g", "auto"), _function(), _function(name="g")),
    "AssistantMessage.content": _answer("content", "WORDS", "WORDS"),
    "AssistantMessage.refusal": _answer("refusal", "WORDS", "WORDS", content=None),
    "AssistantMessage.tool_calls": _call("function", {"name": "NAME", "arguments": "{}"}, "NAME"),
    "AssistantMessage.function_call": Case(
        "messages.function_call",
        _body(**_OLD),
        _body(
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": '{"FIELD": 1}'}},
            {"role": "function", "name": "f", "content": "done"},
            **_OLD,
        ),
        "FIELD",
    ),
    "AssistantMessage.audio": _answer("audio", {"id": "audio_1"}),
    "AssistantMessage.name": _answer("name", "NAME", "NAME"),
    "AssistantMessage.reasoning_content": _answer("reasoning_content", "WORDS", "WORDS"),
    "AssistantMessage.reasoning": _answer("reasoning", "WORDS", "WORDS"),
    "AssistantMessage.reasoning_details": _answer(
        "reasoning_details", [{"type": "reasoning.text", "text": "WORDS"}], "WORDS"
    ),
    "CalledCustom.name": _call("custom.name", {"name": "NAME", "input": "x"}, "NAME"),
    "CalledCustom.input": _call("custom.input", {"name": "f", "input": "WORDS"}, "WORDS"),
    "CalledFunction.name": _call("function.name", {"name": "NAME", "arguments": "{}"}, "NAME"),
    "CalledFunction.arguments": _call("function.arguments", {"name": "f", "arguments": '{"FIELD": 1}'}, "FIELD"),
    "Custom.name": _tool("custom.name", _custom(), _custom(name="NAME"), "NAME"),
    "Custom.description": _tool("custom.description", _custom(), _custom(description="WORDS"), "WORDS"),
    "Custom.format": _tool("custom.format", _custom(), _grammar("lark"), "start: X"),
    "Grammar.definition": _tool("custom.format.grammar.definition", _custom(), _grammar("lark"), "start: X"),
    "Grammar.syntax": _tool("custom.format.grammar.syntax", _custom(), _grammar("regex"), "regex"),
    "File.file_data": _part("file.file_data", _file(), _file(file_data=f"{_PAPER[:-8]}QkJC"), "QkJC"),
    "File.file_id": _part("file.file_id", None, {"type": "file", "file": {"file_id": "file_1"}}, "file_1"),
    "File.filename": _part("file.filename", _nameless(), _file(filename="NAME.pdf"), "NAME.pdf"),
    "FileSearchTool.vector_store_ids": Case(
        "tools.vector_store_ids", _body(), _body(tools=[{"type": "file_search", "vector_store_ids": ["vs_1"]}]), "vs_1"
    ),
    "Function.name": _tool("function.name", _function(), _function(name="NAME"), "NAME"),
    "Function.description": _tool("function.description", _function(), _function(description="WORDS"), "WORDS"),
    "Function.parameters": _tool("function.parameters", _function(), _function(parameters=_FIELD), "FIELD"),
    "Function.strict": _tool("function.strict", _function(), _function(strict=True)),
    "FunctionMessage.content": Case(
        "messages.content",
        _body(**_OLD),
        _body(
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "WORDS"},
            **_OLD,
        ),
        "WORDS",
    ),
    "ImageUrl.url": _part("image_url.url", _image(), _image(url=f"{_PIXEL[:-8]}QkJC"), "QkJC"),
    "ImageUrl.detail": _part("image_url.detail", _image(), _image(detail="low")),
    "InputAudio.data": _part("input_audio.data", _audio(), _audio(data="BBBB"), "BBBB"),
    "InputAudio.format": _part("input_audio.format", _audio(), _audio(format="mp3"), "mp3"),
    "JsonSchema.name": _format("name", "NAME", "NAME"),
    "JsonSchema.description": _format("description", "WORDS", "WORDS"),
    "JsonSchema.schema": _format("schema", _FIELD, "FIELD"),
    "JsonSchema.strict": _format("strict", True),
    "Named.name": _chosen(
        "function.name", {"type": "function", "function": {"name": "g"}}, _function(), _function(name="g")
    ),
    "NamedCustom.custom": _chosen("custom.name", {"type": "custom", "custom": {"name": "f"}}, _custom()),
    "Reasoning.effort": _param("reasoning", "effort", "high"),
    "Reasoning.max_tokens": _param("reasoning", "max_tokens", 2345, max_tokens=9000),
    "Reasoning.enabled": Case("reasoning", _body(), _body(reasoning={"enabled": False})),
    "Reasoning.summary": Case("reasoning", _body(), _body(reasoning={"summary": "detailed"})),
    "RefusalPart.refusal": _answer("content", [{"type": "refusal", "refusal": "WORDS"}], "WORDS"),
    "StreamOptions.include_obfuscation": _param("stream_options", "include_obfuscation", True, stream=True),
    "SystemMessage.content": Case("messages.content", _body(), _body({"role": "system", "content": "WORDS"}), "WORDS"),
    "SystemMessage.name": _message("name", {"role": "system", "content": "a"}, {"name": "NAME"}, value="NAME"),
    "TextPart.text": _part("text", None, {"type": "text", "text": "WORDS"}, "WORDS"),
    "ThinkingParam.budget_tokens": Case(
        "thinking.budget_tokens",
        _body(thinking={"type": "enabled"}, max_tokens=9000),
        _body(thinking={"type": "enabled", "budget_tokens": 2345}, max_tokens=9000),
    ),
    "ToolMessage.content": Case(
        "messages.content",
        _body(),
        _body(*_called({"name": "f", "arguments": "{}"}, "WORDS")),
        "WORDS",
    ),
    "UserMessage.content": Case("messages.content", _body(), _body({"role": "user", "content": "WORDS"}), "WORDS"),
    "UserMessage.name": _message("name", {"role": "user", "content": "a"}, {"name": "NAME"}, value="NAME"),
    "WebSearchOptions.search_context_size": Case(
        "web_search_options.search_context_size",
        _body(),
        _body(web_search_options={"search_context_size": "high"}),
    ),
    **{
        f"ApproximatePlace.{key}": Case(
            f"web_search_options.user_location.approximate.{key}",
            _body(),
            _searched({key: "WORDS"}),
            "WORDS",
        )
        for key in ("city", "country", "region", "timezone")
    },
}
