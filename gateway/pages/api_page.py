"""What the page `/docs` shows: the endpoints of /openapi.json, described for people."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_MAX_ENUM_VALUES: Final = 8
"""Longer lists of values are described by the type of the values."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a request body. In `meaning`, code stands between backquotes."""

    name: str
    type: str
    required: bool
    meaning: str
    example: str
    """A value as JSON; empty if none is documented."""
    reply: str
    """What the reply contains because of the field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one path. In `paragraphs`, code stands between backquotes."""

    id: str
    """The operation's place on the page."""
    method: str
    path: str
    paragraphs: Sequence[str]
    fields: Sequence[Field] | None
    """None if there is no JSON body."""


@dataclass(frozen=True, slots=True)
class OperationGroup:
    """Operations with one tag."""

    title: str
    operations: Sequence[Operation]


@dataclass(frozen=True, slots=True)
class ApiPage:
    """The read model of the page."""

    groups: Sequence[OperationGroup]


def build_api_page(document: Mapping[str, Any]) -> ApiPage:
    """Returns the read model of the page for an OpenAPI document."""
    groups: dict[str, list[Operation]] = {}
    schemas = document.get("components", {}).get("schemas", {})
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            tag = (operation.get("tags") or ["Other"])[0]
            groups.setdefault(tag, []).append(_describe_operation(method, path, operation, schemas))
    return ApiPage([OperationGroup(title, group) for title, group in groups.items()])


def _describe_operation(method: str, path: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> Operation:
    schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    schema = schemas[_name_of(schema)] if "$ref" in schema else schema
    return Operation(
        id=f"{method}-{path.strip('/').replace('/', '-').replace('{', '').replace('}', '')}",
        method=method.upper(),
        path=path,
        paragraphs=[text for text in operation.get("description", "").split("\n\n") if text],
        fields=_describe_fields(schema) if schema else None,
    )


def _describe_fields(schema: Mapping[str, Any]) -> list[Field]:
    required = set(schema.get("required", ()))
    return [
        Field(
            name,
            _describe_type(field),
            name in required,
            field.get("description", ""),
            json.dumps(field["examples"][0], ensure_ascii=False) if field.get("examples") else "",
            field.get("x-in-reply", ""),
        )
        for name, field in schema.get("properties", {}).items()
    ]


def _describe_type(schema: Mapping[str, Any]) -> str:
    """Returns the type of a JSON schema in words. The alternative null is left out: every optional field has it."""
    if "$ref" in schema:
        return _name_of(schema).rpartition(".")[2]
    if "const" in schema:
        return repr(schema["const"])
    if "enum" in schema and len(schema["enum"]) <= _MAX_ENUM_VALUES:
        return " or ".join(repr(value) for value in schema["enum"])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            names = dict.fromkeys(_describe_type(each) for each in schema[key] if each.get("type") != "null")
            return " or ".join(names) if len(names) <= _MAX_ENUM_VALUES else "object, one of several types"
    if schema.get("type") == "array":
        return f"list of {_describe_type(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def _name_of(reference: Mapping[str, Any]) -> str:
    """Returns the name of the schema in the document's components that a reference is to."""
    return str(reference["$ref"]).removeprefix("#/components/schemas/")
