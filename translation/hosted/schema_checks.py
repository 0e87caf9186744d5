"""Checks the schemas of tools that servers list, before a model and its upstream get them."""

import re
from collections.abc import Iterator
from typing import Any, Final

import jsonschema_rs
import orjson

from translation.hosted.bounds import SchemaLimits
from translation.representation.json_types import Json
from translation.tools.call_validator import LINEAR_PATTERNS
from translation.tools.schema_cost import SchemaTooLarge, TooManySubschemas, count_subschemas

_KNOWN_META_SCHEMA: Final = ("http://json-schema.org/", "https://json-schema.org/")
_MAX_QUOTED_CHARS: Final = 200
_MAX_PATTERN_CHARS: Final = 8 * 1024
"""The longest patterns of one schema together: a compiled one takes 500 times its length."""

_LINE_END: Final = "\n"

_BACKTRACKING: Final = re.compile(r"\(\?<?[=!]|\(\?>|\\[1-9]|\\k<")
"""Constructs that an engine with linear time lacks: look-around assertions and back references."""

_PARENTHESIS: Final = re.compile(r"[()]")
_REPETITION: Final = re.compile(r"[+*}]")
_TOO_EXPENSIVE: Final = "its schema has a pattern that is too expensive: {!r}"


def find_schema_fault(schema: Any, limits: SchemaLimits) -> str | None:
    """Returns why a tool with this schema cannot be used, as the rest of a sentence; None if it can.

    Nothing is fetched, so a schema that refers to another document is at fault. So is a schema with a pattern that
    could take an upstream very long.
    """
    if not isinstance(schema, dict):
        return "its schema is not an object"
    if _is_deeper_than(schema, limits.max_depth):
        return f"its schema is nested deeper than {limits.max_depth} levels"
    try:
        size = len(orjson.dumps(schema))
    except orjson.JSONEncodeError:  # the lists in it count here, and not in `max_depth`
        return "its schema has a number of more than 64 bits, text that is not Unicode, or too many nested lists"
    if size > limits.max_bytes:
        return f"its schema has more than {limits.max_bytes // 1024} KiB"
    types = schema.get("type", "object")
    if types != "object" and not (isinstance(types, list) and "object" in types):
        return "its schema is not one of objects"
    followed: set[str] = set()
    for reference in _references_in(schema):
        if not reference.startswith("#"):
            return f"its schema refers to {reference[:_MAX_QUOTED_CHARS]!r}, and nothing is fetched"
        if _is_circular(schema, reference, followed):
            return f"its schema has a circular reference to {reference[:_MAX_QUOTED_CHARS]!r}"
    try:
        count_subschemas(schema)
    except TooManySubschemas:
        return "its schema is too large: its references stand for too many subschemas"
    except SchemaTooLarge:
        pass  # it has references that are not counted, and are not followed either
    patterns = [*_patterns_in(schema)]
    if sum(map(len, patterns)) > _MAX_PATTERN_CHARS:
        return f"its schema has patterns of more than {_MAX_PATTERN_CHARS // 1024} KiB"
    if (invalid := _find_invalid(schema)) is not None:
        return invalid
    expensive = next(filter(_is_expensive, patterns), None)
    return None if expensive is None else _TOO_EXPENSIVE.format(expensive[:_MAX_QUOTED_CHARS])


def _find_invalid(schema: Json) -> str | None:
    dialect = schema.get("$schema")
    if isinstance(dialect, str) and not dialect.startswith(_KNOWN_META_SCHEMA):
        schema = {name: value for name, value in schema.items() if name != "$schema"}
    try:
        jsonschema_rs.validator_for(schema, offline=True, validate_formats=False)
    except ValueError as error:
        return f"its schema is invalid: {str(error).partition(_LINE_END)[0][:_MAX_QUOTED_CHARS]}"
    return None


def _is_deeper_than(schema: Json, max_depth: int) -> bool:
    """Whether objects are nested deeper than the limit. Lists do not count, but their entries do."""
    level: list[Any] = [schema]
    for _ in range(max_depth):
        level = [child for node in level for child in _children_of(node)]
        if not level:
            return False
    return True


def _children_of(node: Any) -> Iterator[Any]:
    """Yields the objects directly in an object, through lists of any depth."""
    pending = [*node.values()]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            yield value
        elif isinstance(value, list):
            pending += value


def _references_in(schema: Json) -> Iterator[str]:
    pending: list[Any] = [schema]
    while pending:
        node = pending.pop()
        if isinstance(reference := node.get("$ref"), str):
            yield reference
        pending += _children_of(node)


def _patterns_in(schema: Json) -> Iterator[str]:
    pending: list[Any] = [schema]
    while pending:
        node = pending.pop()
        if isinstance(pattern := node.get("pattern"), str):
            yield pattern
        if isinstance(by_pattern := node.get("patternProperties"), dict):
            yield from by_pattern
        pending += _children_of(node)


def _is_expensive(pattern: str) -> bool:
    """Whether matching a pattern, which is valid, may take exponential time, or a very large automaton."""
    if _BACKTRACKING.search(pattern):
        return _has_nested_repetition(pattern)
    try:
        jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=LINEAR_PATTERNS)
    except ValueError:
        return True
    return False


def _has_nested_repetition(pattern: str) -> bool:
    """Whether a group without inner groups is repeated and has a repetition in it, such as `(a+)*`."""
    start = 0
    for parenthesis in _PARENTHESIS.finditer(pattern):
        position = parenthesis.start()
        is_repeated = pattern[position] == ")" and pattern[position + 1 : position + 2] in ("+", "*", "{")
        if is_repeated and _REPETITION.search(pattern, start, position):
            return True
        start = position + 1
    return False


def _is_circular(root: Json, reference: str, harmless: set[str]) -> bool:
    """Whether following a reference only leads to further references, back to itself. `harmless` has the references
    that were followed before, and gets those of this one: each is followed once."""
    followed: set[str] = set()
    while reference not in followed:
        if reference in harmless:
            break
        followed.add(reference)
        node: Any = root
        for step in reference.split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            node = node.get(key) if isinstance(node, dict) else None
        next_reference = node.get("$ref") if isinstance(node, dict) and node is not root else None
        if not isinstance(next_reference, str):
            break
        reference = next_reference
    else:
        return True
    harmless |= followed
    return False
