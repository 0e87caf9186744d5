"""Adapts JSON schemas to the subset that the API enforces: objects are closed, limits are only described."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

import orjson

from translation.errors import Unrepresentable
from translation.lowering.closed_schemas import describes_object
from translation.representation.json_types import Json
from translation.representation.loss import Loss

_LIMIT_KEYWORDS: Final = (
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
)
"""Keywords that the API refuses.
https://docs.claude.com/en/docs/build-with-claude/structured-outputs#json-schema-limitations"""

_NAMED_SUBSCHEMAS: Final = ("properties", "$defs", "definitions")
"""Keywords whose value maps names of the client's choice to schemas."""

_LISTED_SUBSCHEMAS: Final = ("anyOf", "allOf", "oneOf")


_ACCEPTED_LIMITS: Final = (("minItems", 0), ("minItems", 1))
"""(keyword, value) of limits that the API accepts."""


class JoinedObjects(Exception):
    """An object of a schema is joined of several schemas. If each of them were closed, nothing would fit all."""


def close_schema(schema: Mapping[str, Any], param: str, losses: list[Loss]) -> Json:
    """Returns a schema with every object closed and with limits moved to descriptions. Both are losses of `param`.

    Raises JoinedObjects, and Unrepresentable for a schema that is nested too deep to be processed.
    """
    try:
        return _SchemaCloser(schema, param, losses).close(schema)
    except RecursionError:
        raise Unrepresentable("this schema is nested too deep", param=param) from None


class _SchemaCloser:
    def __init__(self, root: Mapping[str, Any], param: str, losses: list[Loss]) -> None:
        self._root = root
        self._param = param
        self._losses = losses
        self._closable = _find_closable(root)

    def close(self, schema: Mapping[str, Any]) -> Json:
        if self._joins_objects(schema):
            raise JoinedObjects
        limits = {
            key: value
            for key, value in schema.items()
            if key in _LIMIT_KEYWORDS and not any((key, value) == accepted for accepted in _ACCEPTED_LIMITS)
        }
        result = {key: self._close_keyword(key, value) for key, value in schema.items() if key not in limits}
        if "oneOf" in result and "anyOf" not in result:
            result["anyOf"] = result.pop("oneOf")
        if describes_object(schema) and schema.get("additionalProperties") is not False:
            result["additionalProperties"] = False
            self._losses.append(Loss(self._param, "objects closed"))
        if limits:
            description = schema.get("description")
            described = _describe_limits(limits)
            result["description"] = f"{description} {described}" if description else described
            self._losses.append(Loss(self._param, "limits described"))
        return result

    def _close_keyword(self, key: str, value: Any) -> Any:
        if key in _NAMED_SUBSCHEMAS and isinstance(value, dict):
            return {name: self._close_value(subschema) for name, subschema in value.items()}
        if key in _LISTED_SUBSCHEMAS and isinstance(value, list):
            return [self._close_value(subschema) for subschema in value]
        return self._close_value(value) if key == "items" else value

    def _close_value(self, value: Any) -> Any:
        return self.close(value) if isinstance(value, dict) else value

    def _joins_objects(self, schema: Mapping[str, Any]) -> bool:
        """Returns whether an object is what several schemas say together, and more than one of them would be closed."""
        closed_count = describes_object(schema) + ("$ref" in schema and self._is_closable(_resolve(schema, self._root)))
        for key in _LISTED_SUBSCHEMAS:
            parts = map(self._is_closable, _list_schemas(schema.get(key)))
            closed_count += sum(parts) if key == "allOf" else any(parts)  # of choices only one counts
        return closed_count > 1

    def _is_closable(self, schema: Mapping[str, Any] | None) -> bool:
        return schema is None or id(schema) in self._closable


def _find_closable(root: Mapping[str, Any]) -> set[int]:
    """Returns the identities of the schemas that may be closed: objects, what refers to them or offers them as one of
    its choices or parts, and what refers to a definition that is not found."""
    users: defaultdict[int, list[int]] = defaultdict(list)
    """A schema -> the schemas that refer to it or have it as a part."""
    pending: list[Any] = [root]
    closable: list[int] = []
    visited: set[int] = set()
    while pending:
        value = pending.pop()
        if isinstance(value, list):
            pending += value
        elif isinstance(value, Mapping) and id(value) not in visited:
            visited.add(id(value))
            pending += value.values()
            parts = [part for key in _LISTED_SUBSCHEMAS for part in _list_schemas(value.get(key))]
            target = _resolve(value, root) if "$ref" in value else {}
            if describes_object(value) or target is None:
                closable.append(id(value))
            for part in (*parts, *filter(None, [target])):
                users[id(part)].append(id(value))
    result: set[int] = set()
    while closable:
        if (schema := closable.pop()) not in result:
            result.add(schema)
            closable += users[schema]
    return result


def _resolve(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Returns the definition to which a schema refers; None if it is not found in the same schema."""
    reference = schema["$ref"]
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    target: Any = root
    for step in reference.split("/")[1:]:
        target = target.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(target, Mapping) else None
    return target if isinstance(target, Mapping) else None


def _list_schemas(listed: Any) -> list[Mapping[str, Any]]:
    return [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []


def _describe_limits(limits: Json) -> str:
    return orjson.dumps(limits).decode()
