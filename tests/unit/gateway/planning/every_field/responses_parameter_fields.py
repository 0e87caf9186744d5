"""Every field of the other parameters of a Responses request, each once.

A case is named as the schema names the field: the object it is in, and its key.
"""

from typing import Any, Final

from tests.unit.gateway.planning.every_field.field_cases import Case
from translation.representation.json_types import Json


def _body(**more: Any) -> Json:
    return {"input": [{"type": "message", "role": "user", "content": "Hi"}], **more}


def _schema(key: str, value: Any, needle: str | None = None) -> Case:
    shape = {"type": "json_schema", "name": "n", "schema": {"type": "object", "properties": {}}}
    return Case(
        f"text.format.{key}", _body(text={"format": shape}), _body(text={"format": {**shape, key: value}}), needle
    )


def _param(name: str, key: str, value: Any, **beside: Any) -> Case:
    plain = beside.pop("plain", None)
    return Case(
        f"{name}.{key}",
        _body(**beside, **({name: plain} if plain else {})),
        _body(**beside, **{name: {**(plain or {}), key: value}}),
    )


CASES: Final[dict[str, Case]] = {
    "JsonSchemaFormat.name": _schema("name", "NAME", "NAME"),
    "JsonSchemaFormat.schema": _schema(
        "schema", {"type": "object", "properties": {"FIELD": {"type": "string"}}}, "FIELD"
    ),
    "JsonSchemaFormat.strict": _schema("strict", True),
    "JsonSchemaFormat.description": _schema("description", "WORDS", "WORDS"),
    "Reasoning.effort": _param("reasoning", "effort", "high"),
    "Reasoning.summary": _param("reasoning", "summary", "detailed"),
    "Reasoning.generate_summary": _param("reasoning", "generate_summary", "detailed"),
    "Reasoning.context": _param("reasoning", "context", "all_turns"),
    "Reasoning.mode": _param("reasoning", "mode", "other"),
    "Reasoning.max_tokens": _param("reasoning", "max_tokens", 2345, max_output_tokens=9000),
    "StreamOptions.include_obfuscation": _param("stream_options", "include_obfuscation", True, stream=True),
    "Text.format": _param("text", "format", {"type": "json_object"}),
    "Text.verbosity": _param("text", "verbosity", "low"),
    "PromptCacheOptions.mode": _param("prompt_cache_options", "mode", "explicit"),
    "PromptCacheOptions.ttl": _param("prompt_cache_options", "ttl", "12h"),
}
