"""What the text of an answer must be: out of the API's own parameter, or out of those that engines add to it."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from providers.engines.base import OutputConstraint
from translation.errors import InvalidRequest, Unrepresentable
from translation.representation.json_types import Json
from translation.representation.turn import Turn


def _parse_schema(value: Any) -> OutputConstraint:
    if isinstance(value, Mapping):
        return OutputConstraint(json_schema=dict(value))
    raise TypeError("a JSON schema")


def _parse_regex(value: Any) -> OutputConstraint:
    return OutputConstraint(regex=_require_text(value))


def _parse_grammar(value: Any) -> OutputConstraint:
    return OutputConstraint(grammar=_require_text(value))


def _require_text(value: Any) -> str:
    if isinstance(value, str) and value:
        return value
    raise TypeError("a text")


def _parse_choice(value: Any) -> OutputConstraint:
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        return OutputConstraint(choice=tuple(value))
    raise TypeError("a list of texts")


def _parse_json_object(value: Any) -> OutputConstraint | None:
    return OutputConstraint(json_object=True) if value else None


_STRUCTURED_OUTPUTS: Final[Mapping[str, Callable[[Any], OutputConstraint | None]]] = {
    "json": _parse_schema,
    "json_object": _parse_json_object,
    "regex": _parse_regex,
    "grammar": _parse_grammar,
    "choice": _parse_choice,
}
"""Key of `structured_outputs` -> what its value means."""

GUIDED_FIELDS: Final[Mapping[str, Callable[[Any], OutputConstraint | None]]] = {
    "guided_json": _parse_schema,
    "guided_regex": _parse_regex,
    "guided_grammar": _parse_grammar,
    "guided_choice": _parse_choice,
    "grammar": _parse_grammar,
    "json_schema": _parse_schema,
}
"""Request fields outside the API: vLLM's, and llama.cpp's `grammar` and `json_schema`."""

CONSTRAINT_FIELDS: Final = frozenset({"structured_outputs", *GUIDED_FIELDS})


def output_constraint_of(turn: Turn, supported: frozenset[str]) -> OutputConstraint | None:
    """What holds the answer of a turn; `known` are the fields outside the API that its model takes.

    Raises InvalidRequest for a value of another kind, and for two that would hold it at once.
    """
    constraints: dict[str, OutputConstraint] = {}
    if (format := _parse_text_format(turn.text_format)) is not None:
        constraints["text.format"] = format
    for name, value in turn.extra.items():
        if name in CONSTRAINT_FIELDS and name in supported and value is not None:
            constraint = (
                _parse_structured_outputs(value)
                if name == "structured_outputs"
                else _parse_field(GUIDED_FIELDS[name], value, name)
            )
            if constraint is not None:
                constraints[name] = constraint
    if len(constraints) > 1:
        one, other, *_ = constraints
        raise InvalidRequest(f"{one} and {other} cannot both shape the answer: send one of them.", param=other)
    return next(iter(constraints.values()), None)


def structural_tag_of(guide: OutputConstraint) -> str | None:
    """A schema and what follows it, as xgrammar is told of them; None where nothing follows."""
    if guide.json_schema is None or not guide.suffix:
        return None
    value = {"type": "json_schema", "json_schema": guide.json_schema}
    elements = [value, {"type": "const_string", "value": guide.suffix}]
    return orjson.dumps({"type": "structural_tag", "format": {"type": "sequence", "elements": elements}}).decode()


def _parse_text_format(text_format: Json | None) -> OutputConstraint | None:
    match (text_format or {}).get("type", "text"):
        case "text":
            return None
        case "json_object":
            return OutputConstraint(json_object=True)
        case "json_schema":
            return OutputConstraint(json_schema=(text_format or {}).get("schema") or {})
        case kind:
            raise Unrepresentable(f"this model cannot be held to the text format {kind!r}", param="text.format.type")


def _parse_structured_outputs(value: Any) -> OutputConstraint | None:
    if not isinstance(value, Mapping):
        raise InvalidRequest("structured_outputs is an object.", param="structured_outputs")
    given = {name: each for name, each in value.items() if each is not None and each is not False}
    for name in given:
        if name not in _STRUCTURED_OUTPUTS:
            raise Unrepresentable(f"this model's engine knows no {name!r} here", param=f"structured_outputs.{name}")
    if len(given) > 1:
        raise InvalidRequest("structured_outputs holds one of its kinds, not several.", param="structured_outputs")
    for name, each in given.items():
        return _parse_field(_STRUCTURED_OUTPUTS[name], each, f"structured_outputs.{name}")
    return None


def _parse_field(read: Callable[[Any], OutputConstraint | None], value: Any, param: str) -> OutputConstraint | None:
    try:
        return read(value)
    except TypeError as error:
        raise InvalidRequest(f"{param} is {error}.", param=param) from error
