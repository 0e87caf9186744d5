"""Named changes to the schemas of a request, for upstreams that refuse its tools or its format without them."""

import re
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, Final

from translation.errors import Unrepresentable
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import SchemaShim

_SCHEMA_MAP_KEYWORDS: Final = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
"""Keywords whose value maps names that the client chooses to schemas."""

_SCHEMA_LIST_KEYWORDS: Final = ("anyOf", "allOf", "oneOf", "prefixItems")

_SCHEMA_KEYWORDS: Final = ("items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else")

_ITEM_KEYWORDS: Final = frozenset({"items", "prefixItems", "$ref"})
"""Keywords that describe the entries of an array."""

_UNICODE_CLASS: Final = re.compile(r"(?<!\\)(?:\\\\)*\\[pP]\{")
"""A class of Unicode characters, such as `\\p{L}`, which the regular expressions of some servers do not have."""

_SIGNED_FORMATS: Final = {"uint8": "int32", "uint16": "int32", "uint32": "int64", "uint64": "int64", "uint": "int64"}
"""Unsigned format -> a signed format whose range includes it, as far as there is one."""


def apply_schema_shims(tools: Sequence[Json], shims: Set[SchemaShim], losses: list[Loss]) -> Sequence[Json]:
    """Returns the tools with the shims applied to functions, in the form of Responses or chat.

    The given objects are not changed. Raises Unrepresentable for a schema that is nested too deep.
    """
    if not shims:
        return tools
    return [_shim_tool(tool, index, shims, losses) for index, tool in enumerate(tools)]


def shim_format(text_format: Json, shims: Set[SchemaShim], param: str, losses: list[Loss]) -> Json:
    """Returns a format of the answer with the shims applied to its `schema`; the same object if nothing changes.

    `param` is the client's name of the schema. Raises Unrepresentable for a schema that is nested too deep.
    """
    schema = text_format.get("schema")
    if not shims or not isinstance(schema, dict):
        return text_format
    changed = _shim_root(schema, param, shims, losses)
    return text_format if changed == schema else {**text_format, "schema": changed}


def _shim_tool(tool: Json, index: int, shims: Set[SchemaShim], losses: list[Loss]) -> Json:
    if tool.get("type") != "function":
        return tool
    if isinstance(tool.get("function"), dict):
        return {**tool, "function": _shim_function(tool["function"], index, shims, losses)}
    return _shim_function(tool, index, shims, losses)


def _shim_function(function: Json, index: int, shims: Set[SchemaShim], losses: list[Loss]) -> Json:
    changed = dict(function)
    if "no_descriptions" in shims and changed.pop("description", None):
        losses.append(Loss(f"tools[{index}].description", "dropped"))
    if isinstance(parameters := changed.get("parameters"), dict):
        changed["parameters"] = _shim_root(parameters, f"tools[{index}].parameters", shims, losses)
    return changed


def _shim_root(schema: Json, param: str, shims: Set[SchemaShim], losses: list[Loss]) -> Json:
    """Returns a whole schema with the shims. `param` is its name in losses and errors."""
    changes = [change for name, change in _SCHEMA_CHANGES.items() if name in shims]
    try:
        changed: Json = _shim_schema(schema, changes)
        if "plain_patterns" in shims and changed != schema and _loses_pattern(schema):
            losses.append(Loss(f"{param}.pattern", "dropped"))
    except RecursionError:
        raise Unrepresentable("this schema is nested too deep", param=param) from None
    return changed


def _shim_schema(schema: Any, changes: Sequence[Callable[[Json], None]]) -> Any:
    if not isinstance(schema, dict):
        return schema
    changed = {key: _shim_keyword(key, value, changes) for key, value in schema.items()}
    for change in changes:
        change(changed)
    return changed


def _shim_keyword(key: str, value: Any, changes: Sequence[Callable[[Json], None]]) -> Any:
    if key in _SCHEMA_MAP_KEYWORDS and isinstance(value, dict):
        return {name: _shim_schema(schema, changes) for name, schema in value.items()}
    if (key in _SCHEMA_LIST_KEYWORDS or key == "items") and isinstance(value, list):
        return [_shim_schema(schema, changes) for schema in value]
    return _shim_schema(value, changes) if key in _SCHEMA_KEYWORDS else value


def _omit_empty_required(schema: Json) -> None:
    if schema.get("required") == []:
        del schema["required"]


def _omit_schema_key(schema: Json) -> None:
    schema.pop("$schema", None)


def _sign_formats(schema: Json) -> None:
    if isinstance(number_format := schema.get("format"), str) and number_format in _SIGNED_FORMATS:
        schema["format"] = _SIGNED_FORMATS[number_format]


def _add_items(schema: Json) -> None:
    kind = schema.get("type")
    if (kind == "array" or (isinstance(kind, list) and "array" in kind)) and not _ITEM_KEYWORDS & schema.keys():
        schema["items"] = {}


def _omit_unicode_pattern(schema: Json) -> None:
    if isinstance(pattern := schema.get("pattern"), str) and _UNICODE_CLASS.search(pattern):
        del schema["pattern"]


def _loses_pattern(schema: Any) -> bool:
    """Whether a schema has a pattern that is left out, in a keyword or in a schema inside it."""
    if isinstance(schema, list):
        return any(map(_loses_pattern, schema))
    if not isinstance(schema, dict):
        return False
    pattern = schema.get("pattern")
    return (isinstance(pattern, str) and _UNICODE_CLASS.search(pattern) is not None) or any(
        map(_loses_pattern, schema.values())
    )


_SCHEMA_CHANGES: Final[Mapping[SchemaShim, Callable[[Json], None]]] = {
    "no_empty_required": _omit_empty_required,
    "no_schema_key": _omit_schema_key,
    "signed_formats": _sign_formats,
    "array_items": _add_items,
    "plain_patterns": _omit_unicode_pattern,
}
"""Shim -> the change that it makes to a schema and to all schemas in it."""
