"""Reads the answer of a user to a tool, and builds the protocol's result."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, TypeAlias

import orjson

from translation.hosted.elicitation.forms import InputForm, RequestedInput
from translation.representation.json_types import Json
from translation.tools.call_validator import CallValidator

DeclineAction: TypeAlias = Literal["decline", "cancel"]
"""The ways in which a user declines: explicitly, or by leaving the form."""

_FORM: Final = "form"
_MAX_CONTENT_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class UserInput:
    """The user's input with which a call continues. `responses` are results of `elicitation/create` by the server's
    keys.

    `state`, `round` and `call_id` are copied from the request for input.
    """

    responses: Mapping[str, Json]
    state: str | None
    round: int
    call_id: str

    def to_json(self) -> Json:
        """Returns the input as JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Json) -> "UserInput":
        """Returns the input from the result of `to_json`."""
        return cls(**fields)


class InvalidInputContent(Exception):
    """The content does not fit the request for input. The message of the exception says why."""


def accept_input(requested: RequestedInput, content: Any) -> UserInput:
    """Returns the input of a user who answers. `content` must fit the schema of `RequestedInput.describe`.

    None is valid for a form without required fields. Raises InvalidInputContent.
    """
    if len(requested.forms) == 1:
        (form,) = requested.forms
        return _build_input(requested, {form.key: _accept(form, content)})
    if not isinstance(content, dict):
        raise InvalidInputContent("the content must be an object")
    forms = {form.key: form for form in requested.forms}
    if (unknown := next((key for key in content if key not in forms), None)) is not None:
        raise InvalidInputContent(f"the content has the field {unknown!r:.100}, which the form does not have")
    return _build_input(requested, {key: _accept_part(form, content.get(key)) for key, form in forms.items()})


def decline_input(requested: RequestedInput, refusal: DeclineAction) -> UserInput:
    """Returns the input of a user who declines."""
    return _build_input(requested, {form.key: {"action": refusal} for form in requested.forms})


def _build_input(requested: RequestedInput, responses: Mapping[str, Json]) -> UserInput:
    return UserInput(responses=responses, state=requested.state, round=requested.round, call_id=requested.call_id)


def _accept_part(form: InputForm, content: Any) -> Json:
    """Returns the result for one of several forms."""
    if content is None or (form.url is not None and content is False):
        return {"action": "decline"}
    return _accept(form, None if content is True else content)


def _accept(form: InputForm, content: Any) -> Json:
    if form.url is not None:
        if content:
            raise InvalidInputContent("the question is an address to open, which takes no content")
        return {"action": "accept"}
    filled = {} if content is None else content
    if (fault := _find_content_fault(form.schema or {}, filled)) is not None:
        raise InvalidInputContent(fault)
    return {"action": "accept", "content": filled}


def _find_content_fault(schema: Json, content: Any) -> str | None:
    if not isinstance(content, dict):
        return "the content must be an object"
    for name, value in content.items():
        if name not in (schema.get("properties") or {}):
            return f"the content has the field {name!r:.100}, which the form does not have"
        if not _is_plain(value):
            return f"content.{name:.100} must be a text, a number, a truth value or a list of texts"
    try:
        text = orjson.dumps(content).decode()
    except (orjson.JSONEncodeError, UnicodeDecodeError):
        return "the content is not valid JSON"
    function = {"type": "function", "name": _FORM, "parameters": schema}
    fault = CallValidator([function], _MAX_CONTENT_BYTES).fault_of(_FORM, text)
    if fault is None:
        return None
    return fault.replace("the arguments are", "the content is", 1).replace("arguments", "content", 1)


def _is_plain(value: Any) -> bool:
    """Whether the protocol allows this value in the content of an answer."""
    if isinstance(value, list):
        return all(isinstance(each, str) for each in value)
    return value is None or isinstance(value, str | int | float | bool)
