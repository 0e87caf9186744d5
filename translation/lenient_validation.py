"""Validates bodies that only an upstream with the same API can judge: their structure, but not their values.

Both validators are derived from the schema of the API, so that they hold for each of its fields. They are built at the
first body that is not valid.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaValidator

from translation.errors import InvalidRequest
from translation.representation.json_types import Json

_LIMITS: Final = {
    "int": ("ge", "le", "gt", "lt"),
    "float": ("ge", "le", "gt", "lt"),
    "str": ("min_length", "max_length"),
    "list": ("max_length",),
    "dict": ("max_length",),
}
"""Type of a core schema -> the keys that limit its values. Patterns stay: they hold texts that become headers."""

_OTHER: Final = "\0other"
"""The tag of union members that the schema does not list. No client can send it."""


class LenientSchema:
    """The schema of an API without the limits of its values."""

    def __init__(self, adapter: TypeAdapter[Any]) -> None:
        self._adapter = adapter

    def keep_known(self, body: Json) -> Json:
        """Returns the part of a body that the schema knows: without values that it does not allow, and without objects
        of types that it does not list.

        Raises InvalidRequest if the body is malformed: if a value has the wrong type, or a field is missing.
        """
        try:
            self._structure.validate_python(body, strict=True)
            known: Json = self._known.validate_python(body, strict=True)
        except ValidationError:
            raise InvalidRequest("The body is malformed.", param=None) from None
        return known

    @cached_property
    def _structure(self) -> SchemaValidator:
        return SchemaValidator(_remove_limits(self._adapter.core_schema))

    @cached_property
    def _known(self) -> SchemaValidator:
        return SchemaValidator(_omit_unknown(self._adapter.core_schema))


def _remove_limits(schema: Any) -> Any:
    """Returns a core schema that allows every text for a listed one, any number, and objects of unlisted types."""
    if isinstance(schema, list | tuple):
        return [_remove_limits(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    if kind == "literal":
        return {"type": "str"}
    limits = _LIMITS.get(kind, ()) if isinstance(kind, str) else ()
    if kind == "list" and "pattern" in schema.get("items_schema", ()):
        limits = ()
    loose = {key: _remove_limits(value) for key, value in schema.items() if key not in limits}
    if kind == "tagged-union":
        loose["choices"][_OTHER] = {"type": "dict"}
        loose["discriminator"] = _choose_listed(schema["discriminator"], frozenset(schema["choices"]))
    return loose


def _choose_listed(discriminator: str | Callable[[Any], Any], listed: frozenset[Any]) -> Callable[[Any], Any]:
    """Returns a discriminator for which every text that is not `listed` is the tag of the other members."""

    def choose(value: Any) -> Any:
        if callable(discriminator):
            tag = discriminator(value)
        else:
            tag = value.get(discriminator) if isinstance(value, dict) else None
        return _OTHER if isinstance(tag, str) and tag not in listed else tag

    return choose


def _omit_unknown(schema: Any) -> Any:
    """Returns a core schema that leaves out optional fields and entries of lists which are not valid."""
    if isinstance(schema, list | tuple):
        return [_omit_unknown(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    copied = {key: value if key == "expected" else _omit_unknown(value) for key, value in schema.items()}
    if schema.get("type") == "typed-dict-field":
        is_plain = copied["schema"].get("type") in ("int", "float", "str")
        # A field that cannot be left out keeps its value.
        required = _remove_limits(copied["schema"]) if is_plain else copied["schema"]
        copied["schema"] = required if schema.get("required") else _omit_on_error(copied["schema"])
    elif schema.get("type") == "list" and "items_schema" in schema:
        copied["items_schema"] = _omit_on_error(copied["items_schema"])
        copied["fail_fast"] = False
        copied.pop("max_length", None)
    return copied


def _omit_on_error(schema: Any) -> Json:
    return {"type": "default", "schema": schema, "on_error": "omit"}
