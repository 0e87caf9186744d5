"""Refuses schemas and grammars that llama.cpp cannot handle: it would run out of memory, or fail in the middle of the
answer."""

import math
import re
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, Final

from translation.errors import InvalidRequest

_DATA_KEYWORDS: Final = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose values are data and never schemas, even if they look like schemas."""

_NAMED_SCHEMA_KEYWORDS: Final = frozenset(
    {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)
"""Keywords whose values map arbitrary names to schemas."""

_MIN_MAX_KEYWORDS: Final = (("minLength", "maxLength"), ("minItems", "maxItems"), ("minProperties", "maxProperties"))

_MAX_REPETITIONS: Final = 10_000
"""The most repetitions that a schema or grammar may require, because llama.cpp makes a rule of each."""

_LITERAL_START: Final = re.compile(r'\\.|(["\[])', re.DOTALL)
_LITERALS: Final = {
    '"': re.compile(r'"(?:\\.|[^"\\])*+"', re.DOTALL),
    "[": re.compile(r"\[(?:\\.|[^\]\\])*+\]", re.DOTALL),
}
"""Beginning of a literal in GBNF -> the whole literal."""
_REPETITION: Final = re.compile(r"\{\s*+(\d++)\s*+(?:,\s*+(?:(\d++)\s*+)?)?\}")


def refuse_invalid_bounds(values: Mapping[str, Any]) -> None:
    """Raises InvalidRequest for bounds whose minimum is above their maximum, and for a minimum that is far too large.
    `values` are schemas, or values that contain schemas, by their parameter; the value of `grammar` may be a GBNF text.

    llama.cpp expands such a range to rules: it uses up the memory, and serves no other request meanwhile. From bounds
    that no number satisfies it makes a grammar that no text matches, and fails in the middle of the answer.
    """
    for param, value in values.items():
        grammar = value if param == "grammar" and isinstance(value, str) else ""
        for problem in (*_find_schema_problems(value), *_find_grammar_problems(grammar)):
            raise InvalidRequest(f"Invalid value for '{param}': {problem}.", param=param)


def _find_schema_problems(value: Any) -> Iterator[str]:
    for schema in iter_subschemas(value):
        for least, most in _MIN_MAX_KEYWORDS:
            yield from _find_bound_problems(least, schema.get(least), most, schema.get(most))
        yield from _find_number_problems(schema)


def _find_number_problems(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yields problems with bounds that no number satisfies."""
    lower_bounds = [
        (bound, key) for key in ("minimum", "exclusiveMinimum") if (bound := _read_bound(schema.get(key))) is not None
    ]
    upper_bounds = [
        (bound, key) for key in ("maximum", "exclusiveMaximum") if (bound := _read_bound(schema.get(key))) is not None
    ]
    for (lower, lower_key), (upper, upper_key) in product(lower_bounds, upper_bounds):
        if lower > upper or (lower == upper and (lower_key, upper_key) != ("minimum", "maximum")):
            yield f"no number satisfies both {lower_key} and {upper_key}"
        elif schema.get("type") == "integer":
            first = math.ceil(lower) if lower_key == "minimum" else math.floor(lower) + 1
            last = math.floor(upper) if upper_key == "maximum" else math.ceil(upper) - 1
            if first > last:
                yield f"no whole number satisfies both {lower_key} and {upper_key}"


def _read_bound(value: Any) -> float | None:
    """Returns a bound that is a number. In early drafts of JSON Schema the exclusive bounds are true or false."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and math.isfinite(value) else None


def _find_grammar_problems(grammar: str) -> Iterator[str]:
    for least, most in _REPETITION.findall(_remove_literals(grammar)):
        # Nine digits are enough: a longer number is too large in any case.
        yield from _find_bound_problems(least[:9], int(least[:9]), most[:9], int(most[:9]) if most else None)


def _remove_literals(grammar: str) -> str:
    """Returns a grammar without its literals. Each of its characters is looked at at most three times."""
    pieces: list[str] = []
    position = 0
    unclosed: set[str] = set()
    while (start := _LITERAL_START.search(grammar, position)) is not None:
        mark = start[1] or ""
        # If one literal does not end, no further one of its kind does.
        literal = _LITERALS[mark].match(grammar, start.start()) if mark and mark not in unclosed else None
        if mark and literal is None:
            unclosed.add(mark)
        pieces.append(grammar[position : start.end() if literal is None else start.start()])
        position = (start if literal is None else literal).end()
    return "".join((*pieces, grammar[position:]))


def _find_bound_problems(lower_name: str, lower: Any, upper_name: str, upper: Any) -> Iterator[str]:
    if isinstance(lower, int | float) and isinstance(upper, int | float) and lower > upper:
        yield f"{lower_name} is larger than {upper_name}, so nothing can satisfy both"
    elif isinstance(lower, int | float) and lower > _MAX_REPETITIONS:
        yield f"{lower_name} is larger than {_MAX_REPETITIONS}, the maximum"


def iter_subschemas(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yields all mappings in a value that may be schemas, the value itself first. The value may also be something that
    contains schemas, such as a list of tools."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case Mapping() as schema:
                yield schema
                for keyword, inside in schema.items():
                    if keyword in _NAMED_SCHEMA_KEYWORDS and isinstance(inside, Mapping):
                        waiting += inside.values()
                    elif keyword not in _DATA_KEYWORDS:
                        waiting.append(inside)
            case list() | tuple() as entries:
                waiting += entries
