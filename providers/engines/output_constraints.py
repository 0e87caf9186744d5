"""What the text of an answer must be: out of the API's own parameter, or out of those that engines add to it."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from providers.engines.base import Guide
from translation.errors import InvalidRequest, Unrepresentable
from translation.representation.json_types import Json
from translation.representation.turn import Turn


def _schema(value: Any) -> Guide:
    if isinstance(value, Mapping):
        return Guide(json_schema=dict(value))
    raise TypeError("a JSON schema")


def _regex(value: Any) -> Guide:
    return Guide(regex=_text(value))


def _grammar(value: Any) -> Guide:
    return Guide(grammar=_text(value))


def _text(value: Any) -> str:
    if isinstance(value, str) and value:
        return value
    raise TypeError("a text")


def _choice(value: Any) -> Guide:
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        return Guide(choice=tuple(value))
    raise TypeError("a list of texts")


def _object(value: Any) -> Guide | None:
    return Guide(json_object=True) if value else None


_KINDS: Final[Mapping[str, Callable[[Any], Guide | None]]] = {
    "json": _schema,
    "json_object": _object,
    "regex": _regex,
    "grammar": _grammar,
    "choice": _choice,
}
"""Key of `structured_outputs` -> what its value means."""

FIELDS: Final[Mapping[str, Callable[[Any], Guide | None]]] = {
    "guided_json": _schema,
    "guided_regex": _regex,
    "guided_grammar": _grammar,
    "guided_choice": _choice,
    "grammar": _grammar,
    "json_schema": _schema,
}
"""Request fields outside the API: vLLM's, and llama.cpp's `grammar` and `json_schema`."""

NAMES: Final = frozenset({"structured_outputs", *FIELDS})


def guide_of(turn: Turn, known: frozenset[str]) -> Guide | None:
    """What holds the answer of a turn; `known` are the fields outside the API that its model takes.

    Raises InvalidRequest for a value of another kind, and for two that would hold it at once.
    """
    asked: dict[str, Guide] = {}
    if (format := _format(turn.text_format)) is not None:
        asked["text.format"] = format
    for name, value in turn.extra.items():
        if name in NAMES and name in known and value is not None:
            found = _structured(value) if name == "structured_outputs" else _read(FIELDS[name], value, name)
            if found is not None:
                asked[name] = found
    if len(asked) > 1:
        one, other, *_ = asked
        raise InvalidRequest(f"{one} and {other} cannot both shape the answer: send one of them.", param=other)
    return next(iter(asked.values()), None)


def structural_tag(guide: Guide) -> str | None:
    """A schema and what follows it, as xgrammar is told of them; None where nothing follows."""
    if guide.json_schema is None or not guide.after:
        return None
    value = {"type": "json_schema", "json_schema": guide.json_schema}
    elements = [value, {"type": "const_string", "value": guide.after}]
    return orjson.dumps({"type": "structural_tag", "format": {"type": "sequence", "elements": elements}}).decode()


def _format(text_format: Json | None) -> Guide | None:
    match (text_format or {}).get("type", "text"):
        case "text":
            return None
        case "json_object":
            return Guide(json_object=True)
        case "json_schema":
            return Guide(json_schema=(text_format or {}).get("schema") or {})
        case kind:
            raise Unrepresentable(f"this model cannot be held to the text format {kind!r}", param="text.format.type")


def _structured(value: Any) -> Guide | None:
    if not isinstance(value, Mapping):
        raise InvalidRequest("structured_outputs is an object.", param="structured_outputs")
    given = {name: each for name, each in value.items() if each is not None and each is not False}
    for name in given:
        if name not in _KINDS:
            raise Unrepresentable(f"this model's engine knows no {name!r} here", param=f"structured_outputs.{name}")
    if len(given) > 1:
        raise InvalidRequest("structured_outputs holds one of its kinds, not several.", param="structured_outputs")
    for name, each in given.items():
        return _read(_KINDS[name], each, f"structured_outputs.{name}")
    return None


def _read(read: Callable[[Any], Guide | None], value: Any, param: str) -> Guide | None:
    try:
        return read(value)
    except TypeError as error:
        raise InvalidRequest(f"{param} is {error}.", param=param) from error
