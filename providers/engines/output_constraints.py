"""Reads the constraint on a turn's answer from `text.format`, or from the parameters that engines add to the API."""

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
    raise TypeError("a non-empty string")


def _parse_choice(value: Any) -> OutputConstraint:
    if isinstance(value, list) and value and all(isinstance(text, str) for text in value):
        return OutputConstraint(choice=tuple(value))
    raise TypeError("a list of strings")


def _parse_json_object(value: Any) -> OutputConstraint | None:
    return OutputConstraint(json_object=True) if value else None


_STRUCTURED_OUTPUTS: Final[Mapping[str, Callable[[Any], OutputConstraint | None]]] = {
    "json": _parse_schema,
    "json_object": _parse_json_object,
    "regex": _parse_regex,
    "grammar": _parse_grammar,
    "choice": _parse_choice,
}
"""Key of `structured_outputs` -> how its value is parsed."""

GUIDED_FIELDS: Final[Mapping[str, Callable[[Any], OutputConstraint | None]]] = {
    "guided_json": _parse_schema,
    "guided_regex": _parse_regex,
    "guided_grammar": _parse_grammar,
    "guided_choice": _parse_choice,
    "grammar": _parse_grammar,
    "json_schema": _parse_schema,
}
"""Request field outside the API -> how its value is parsed: vLLM's, and llama.cpp's `grammar` and `json_schema`."""

CONSTRAINT_FIELDS: Final = frozenset({"structured_outputs", *GUIDED_FIELDS})


def parse_output_constraint(turn: Turn, supported: frozenset[str]) -> OutputConstraint | None:
    """Returns the constraint on a turn's answer, or None. `supported` are the fields outside the API that the model
    accepts; others are ignored.

    Raises InvalidRequest for a value of the wrong type, and if several parameters set a constraint. Raises
    Unrepresentable for an unknown kind of constraint.
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
        raise InvalidRequest(f"{one} and {other} cannot both constrain the answer: send one of them.", param=other)
    return next(iter(constraints.values()), None)


def render_structural_tag(constraint: OutputConstraint) -> str | None:
    """Returns xgrammar's structural tag for a schema and its suffix, as JSON; None without a schema or suffix."""
    if constraint.json_schema is None or not constraint.suffix:
        return None
    value = {"type": "json_schema", "json_schema": constraint.json_schema}
    elements = [value, {"type": "const_string", "value": constraint.suffix}]
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
            raise Unrepresentable(f"this model does not support the text format {kind!r}", param="text.format.type")


def _parse_structured_outputs(value: Any) -> OutputConstraint | None:
    if not isinstance(value, Mapping):
        raise InvalidRequest("structured_outputs must be an object.", param="structured_outputs")
    constraints = {name: setting for name, setting in value.items() if setting is not None and setting is not False}
    for name in constraints:
        if name not in _STRUCTURED_OUTPUTS:
            raise Unrepresentable(
                f"this model's engine does not support {name!r} in structured_outputs",
                param=f"structured_outputs.{name}",
            )
    if len(constraints) > 1:
        raise InvalidRequest("structured_outputs must have one constraint, not several.", param="structured_outputs")
    for name, setting in constraints.items():
        return _parse_field(_STRUCTURED_OUTPUTS[name], setting, f"structured_outputs.{name}")
    return None


def _parse_field(parse: Callable[[Any], OutputConstraint | None], value: Any, param: str) -> OutputConstraint | None:
    try:
        return parse(value)
    except TypeError as error:
        raise InvalidRequest(f"{param} must be {error}.", param=param) from error
