"""Adapts JSON schemas to the subset that the API enforces: objects are closed, limits are only described."""

from collections.abc import Mapping
from typing import Any, Final

import orjson

from translation.errors import Unrepresentable
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
        self._is_closable: dict[int, bool] = {}
        """The identity of a schema of the root -> whether it may be closed. Each is looked at once."""

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
        if _is_object(schema) and schema.get("additionalProperties") is not False:
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
        closed_count = _is_object(schema) + self._refers_to_closable(schema)
        for key in _LISTED_SUBSCHEMAS:
            parts = map(self._may_be_closed, _list_schemas(schema.get(key)))
            closed_count += sum(parts) if key == "allOf" else any(parts)  # of choices only one counts
        return closed_count > 1

    def _may_be_closed(self, schema: Mapping[str, Any]) -> bool:
        if id(schema) not in self._is_closable:
            self._is_closable[id(schema)] = False  # what a cycle of references adds is known already
            self._is_closable[id(schema)] = (
                _is_object(schema)
                or self._refers_to_closable(schema)
                or any(
                    self._may_be_closed(each) for key in _LISTED_SUBSCHEMAS for each in _list_schemas(schema.get(key))
                )
            )
        return self._is_closable[id(schema)]

    def _refers_to_closable(self, schema: Mapping[str, Any]) -> bool:
        """Returns whether the definition may be closed to which a schema refers. One that is not found may be."""
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return False
        target: Any = self._root
        for step in reference.removeprefix("#").split("/")[1:]:
            target = target.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(target, Mapping) else None
        return self._may_be_closed(target) if isinstance(target, Mapping) else True


def _list_schemas(listed: Any) -> list[Mapping[str, Any]]:
    return [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []


def _describe_limits(limits: Json) -> str:
    return orjson.dumps(limits).decode()


def _is_object(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind) or "properties" in schema
