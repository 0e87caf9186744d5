"""Schemas that llama.cpp would never be done with."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from translation.errors import InvalidRequest

_PAIRS: Final = (("minLength", "maxLength"), ("minItems", "maxItems"), ("minProperties", "maxProperties"))


def refuse_contradictions(asked: Mapping[str, Any]) -> None:
    """Refuse schemas that ask for at least more than at most. `asked`: values with schemas, by their parameter.

    llama.cpp counts such a range down from below zero: it takes all the memory there is, and answers nobody meanwhile.
    """
    for param, value in asked.items():
        for least, most in _contradictions(value):
            raise InvalidRequest(f"Invalid schema: {least} is more than {most}, which nothing can be.", param=param)


def _contradictions(value: Any) -> Iterator[tuple[str, str]]:
    waiting = [value]
    while waiting:
        match waiting.pop():
            case Mapping() as schema:
                for least, most in _PAIRS:
                    if _more(schema.get(least), schema.get(most)):
                        yield least, most
                waiting += schema.values()
            case list() | tuple() as entries:
                waiting += entries


def _more(least: Any, most: Any) -> bool:
    return isinstance(least, int | float) and isinstance(most, int | float) and least > most
