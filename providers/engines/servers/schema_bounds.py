"""Schemas and grammars that llama.cpp would never be done with."""

import math
import re
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, Final

from providers.engines.servers.subschemas import schema_parts
from translation.errors import InvalidRequest

_PAIRS: Final = (("minLength", "maxLength"), ("minItems", "maxItems"), ("minProperties", "maxProperties"))

_MOST: Final = 10_000
"""Repetitions of anything that may be asked for: each is a rule of its own."""

_LITERAL: Final = re.compile(r'"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]')
_RANGE: Final = re.compile(r"\{\s*(\d+)\s*(?:,\s*(\d+)?\s*)?\}")


def refuse_contradictions(asked: Mapping[str, Any]) -> None:
    """Refuse what asks for at least more than at most, or for far too much. `asked`: values by their parameter.

    llama.cpp writes such a range out: it takes all the memory there is, and answers nobody meanwhile. Of bounds that
    leave no number it makes a grammar that nothing fits, and fails in the middle of the answer.
    """
    for param, value in asked.items():
        grammar = value if param == "grammar" and isinstance(value, str) else ""
        for why in (*_in_schema(value), *_in_grammar(grammar)):
            raise InvalidRequest(f"Invalid value for '{param}': {why}.", param=param)


def _in_schema(value: Any) -> Iterator[str]:
    for schema in schema_parts(value):
        for least, most in _PAIRS:
            yield from _wrong(least, schema.get(least), most, schema.get(most))
        yield from _without_numbers(schema)


def _without_numbers(schema: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with bounds that no number is between."""
    lower = [(each, key) for key in ("minimum", "exclusiveMinimum") if (each := _number(schema.get(key))) is not None]
    upper = [(each, key) for key in ("maximum", "exclusiveMaximum") if (each := _number(schema.get(key))) is not None]
    for (least, low), (most, high) in product(lower, upper):
        if least > most or (least == most and (low, high) != ("minimum", "maximum")):
            yield f"{low} and {high} leave no number"
        elif schema.get("type") == "integer":
            first = math.ceil(least) if low == "minimum" else math.floor(least) + 1
            last = math.floor(most) if high == "maximum" else math.ceil(most) - 1
            if first > last:
                yield f"{low} and {high} leave no whole number"


def _number(value: Any) -> float | None:
    """In JSON schema's early drafts the exclusive bounds are true or false."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and math.isfinite(value) else None


def _in_grammar(grammar: str) -> Iterator[str]:
    for least, most in _RANGE.findall(_LITERAL.sub("", grammar)):
        # Longer numbers than these are too much, whatever they are.
        yield from _wrong(least[:9], int(least[:9]), most[:9], int(most[:9]) if most else None)


def _wrong(least: str, lower: Any, most: str, upper: Any) -> Iterator[str]:
    if isinstance(lower, int | float) and isinstance(upper, int | float) and lower > upper:
        yield f"{least} is more than {most}, which nothing can be"
    elif isinstance(lower, int | float) and lower > _MOST:
        yield f"{least} is more than {_MOST}, which is too much"
