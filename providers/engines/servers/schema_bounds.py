"""Schemas and grammars that llama.cpp would never be done with."""

import math
import re
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, Final

from providers.engines.servers.subschemas import iter_subschemas
from translation.errors import InvalidRequest

_MIN_MAX_KEYWORDS: Final = (("minLength", "maxLength"), ("minItems", "maxItems"), ("minProperties", "maxProperties"))

_MAX_REPETITIONS: Final = 10_000
"""Repetitions of anything that may be asked for: each is a rule of its own."""

_LITERAL: Final = re.compile(r'"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]')
_REPETITION: Final = re.compile(r"\{\s*(\d+)\s*(?:,\s*(\d+)?\s*)?\}")


def reject_invalid_bounds(values: Mapping[str, Any]) -> None:
    """Refuse what asks for at least more than at most, or for far too much. `asked`: values by their parameter.

    llama.cpp writes such a range out: it takes all the memory there is, and answers nobody meanwhile. Of bounds that
    leave no number it makes a grammar that nothing fits, and fails in the middle of the answer.
    """
    for param, value in values.items():
        grammar = value if param == "grammar" and isinstance(value, str) else ""
        for problem in (*_schema_problems(value), *_grammar_problems(grammar)):
            raise InvalidRequest(f"Invalid value for '{param}': {problem}.", param=param)


def _schema_problems(value: Any) -> Iterator[str]:
    for schema in iter_subschemas(value):
        for least, most in _MIN_MAX_KEYWORDS:
            yield from _bound_problems(least, schema.get(least), most, schema.get(most))
        yield from _number_problems(schema)


def _number_problems(schema: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with bounds that no number is between."""
    lower = [
        (each, key) for key in ("minimum", "exclusiveMinimum") if (each := _number_or_none(schema.get(key))) is not None
    ]
    upper = [
        (each, key) for key in ("maximum", "exclusiveMaximum") if (each := _number_or_none(schema.get(key))) is not None
    ]
    for (least, low), (most, high) in product(lower, upper):
        if least > most or (least == most and (low, high) != ("minimum", "maximum")):
            yield f"{low} and {high} leave no number"
        elif schema.get("type") == "integer":
            first = math.ceil(least) if low == "minimum" else math.floor(least) + 1
            last = math.floor(most) if high == "maximum" else math.ceil(most) - 1
            if first > last:
                yield f"{low} and {high} leave no whole number"


def _number_or_none(value: Any) -> float | None:
    """In JSON schema's early drafts the exclusive bounds are true or false."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and math.isfinite(value) else None


def _grammar_problems(grammar: str) -> Iterator[str]:
    for least, most in _REPETITION.findall(_LITERAL.sub("", grammar)):
        # Longer numbers than these are too much, whatever they are.
        yield from _bound_problems(least[:9], int(least[:9]), most[:9], int(most[:9]) if most else None)


def _bound_problems(least: str, lower: Any, most: str, upper: Any) -> Iterator[str]:
    if isinstance(lower, int | float) and isinstance(upper, int | float) and lower > upper:
        yield f"{least} is more than {most}, which nothing can be"
    elif isinstance(lower, int | float) and lower > _MAX_REPETITIONS:
        yield f"{least} is more than {_MAX_REPETITIONS}, which is too much"
