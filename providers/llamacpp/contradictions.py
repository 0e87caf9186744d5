"""Schemas and grammars that llama.cpp would never be done with."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from translation.errors import InvalidRequest

_PAIRS: Final = (("minLength", "maxLength"), ("minItems", "maxItems"), ("minProperties", "maxProperties"))

_MOST: Final = 10_000
"""Repetitions of anything that may be asked for: each is a rule of its own."""

_LITERAL: Final = re.compile(r'"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]')
_RANGE: Final = re.compile(r"\{\s*(\d+)\s*(?:,\s*(\d+)?\s*)?\}")


def refuse_contradictions(asked: Mapping[str, Any]) -> None:
    """Refuse what asks for at least more than at most, or for far too much. `asked`: values by their parameter.

    llama.cpp writes such a range out: it takes all the memory there is, and answers nobody meanwhile.
    """
    for param, value in asked.items():
        grammar = value if param == "grammar" and isinstance(value, str) else ""
        for why in (*_in_schema(value), *_in_grammar(grammar)):
            raise InvalidRequest(f"Invalid value for '{param}': {why}.", param=param)


def _in_schema(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        match waiting.pop():
            case Mapping() as schema:
                for least, most in _PAIRS:
                    yield from _wrong(least, schema.get(least), most, schema.get(most))
                waiting += schema.values()
            case list() | tuple() as entries:
                waiting += entries


def _in_grammar(grammar: str) -> Iterator[str]:
    for least, most in _RANGE.findall(_LITERAL.sub("", grammar)):
        # Longer numbers than these are too much, whatever they are.
        yield from _wrong(least[:9], int(least[:9]), most[:9], int(most[:9]) if most else None)


def _wrong(least: str, lower: Any, most: str, upper: Any) -> Iterator[str]:
    if isinstance(lower, int | float) and isinstance(upper, int | float) and lower > upper:
        yield f"{least} is more than {most}, which nothing can be"
    elif isinstance(lower, int | float) and lower > _MOST:
        yield f"{least} is more than {_MOST}, which is too much"
