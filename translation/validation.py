"""Checks a request body against its schema, and says what is wrong with it in the words of the OpenAI API.

Schemas are `TypedDict`s (unknown keys are no errors), and what pydantic makes of a body is thrown away: the body itself
goes on. Schemas keep one rule: an object with a `type` or `role` is matched by a union discriminated by that key.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import Discriminator, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from translation.errors import InvalidRequest

_EXPECTED_TYPES = {
    "bool_type": "a boolean",
    "dict_type": "an object",
    "float_type": "a number",
    "int_from_float": "an integer",
    "int_type": "an integer",
    "list_type": "an array",
    "model_attributes_type": "an object",
    "none_required": "null",
    "string_type": "a string",
    "literal_error": "a string",
    "union_tag_not_found": "an object",
}
"""pydantic's error type -> what was expected, in plain words."""

_TYPE_NAMES = {
    bool: "a boolean",
    dict: "an object",
    float: "a decimal number",
    int: "an integer",
    list: "an array",
    str: "a string",
    type(None): "null",
}

_LIMIT_MESSAGES = {
    "greater_than_equal": "it must be at least {ge:g}",
    "less_than_equal": "it must be at most {le:g}",
    "string_too_long": "at most {max_length} characters are allowed",
    "string_too_short": "it must not be shorter than {min_length}",
    "too_long": "at most {max_length} entries are allowed",
    "too_short": "it must not be shorter than {min_length}",
}
"""pydantic's error type -> the rule in plain words; for types not listed pydantic's own words are used."""

_MAX_QUOTED_CHARS = 100


def check_body(adapter: TypeAdapter[Any], body: object) -> None:
    """Raise InvalidRequest unless `body`, as parsed from JSON, satisfies the adapter's schema.

    Types are strict: a boolean is no integer, a number with a fraction is no integer, a string is no number. `param` is
    the dotted path as OpenAI writes it (`messages[1].content[0].type`), `code` one of missing_required_parameter,
    invalid_type, invalid_value, unknown_parameter.
    """
    try:
        adapter.validator.validate_python(body, strict=True)
    except ValidationError as invalid:
        raise _choose_error(invalid.errors(include_url=False), body) from None


def discriminate_by(key: str, default: str | None = None) -> Discriminator:
    """Discriminate a union of `Annotated[X, Tag(value)]` by an object's `key`, which may be left out given a `default`.

    The default's tag must not be the name of a key whose value is not an object.
    """

    def choose(value: object) -> str | None:
        if not isinstance(value, dict):
            return None
        chosen = value.get(key)
        return default if chosen is None else chosen if isinstance(chosen, str) else None

    choose.__name__ = key
    return Discriminator(choose)


def _choose_error(errors: Sequence[ErrorDetails], body: object) -> InvalidRequest:
    """One error of many: the first field that has any; in it the deepest: the union member that fitted best."""
    if not isinstance(body, dict):
        return InvalidRequest("The request body must be a JSON object.", param=None, code="invalid_type")
    located = [(_locate(error, body), error) for error in errors]
    field = located[0][0][:1]
    located = [pair for pair in located if pair[0][:1] == field]
    deepest = max(located, key=lambda pair: len(pair[0]))[0]
    rivals = [error for path, error in located if path == deepest]
    param = dotted_path(deepest)
    wrong_types = [error for error in rivals if _is_wrong_type(error)]
    if len(wrong_types) < len(rivals):
        return _render_error(next(error for error in rivals if not _is_wrong_type(error)), param)
    return _wrong_type_error(param, [_EXPECTED_TYPES[error["type"]] for error in wrong_types], wrong_types[0]["input"])


def dotted_path(path: Iterable[str | int]) -> str:
    """`("messages", 1, "content")` as `messages[1].content`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def _locate(error: ErrorDetails, body: object) -> tuple[str | int, ...]:
    """Where in the body an error is: pydantic's location without the steps that name members of unions."""
    here: Any = body
    path: list[str | int] = []
    untagged = True
    *_, last = error["loc"] or ("",)
    for step in error["loc"]:
        if isinstance(here, dict) and untagged and step in (here.get("type"), here.get("role")):
            untagged = False
            continue
        try:
            here = here[step]
        except (KeyError, TypeError):
            continue
        path.append(step)
        untagged = True
    if error["type"] == "missing":
        path.append(last)
    elif error["type"].startswith("union_tag_") and isinstance(here, dict):
        path.append(error["ctx"]["discriminator"].strip("'()"))
    return tuple(path)


def _is_wrong_type(error: ErrorDetails) -> bool:
    match error["type"]:
        case "literal_error":
            return not isinstance(error["input"], str)
        case "union_tag_not_found":
            return not isinstance(error["input"], dict)
        case kind:
            return kind in _EXPECTED_TYPES


def _wrong_type_error(param: str, expected: Sequence[str], got: object) -> InvalidRequest:
    *most, last = dict.fromkeys(expected)
    choices = f"{', '.join(most)} or {last}" if most else last
    return InvalidRequest(
        f"Invalid type for '{param}': expected {choices}, but got {_TYPE_NAMES.get(type(got), 'something else')} instead.",
        param=param,
        code="invalid_type",
    )


def _render_error(error: ErrorDetails, param: str) -> InvalidRequest:
    kind, given, ctx = error["type"], error["input"], error.get("ctx", {})
    if kind == "union_tag_not_found" and (tag := given.get(ctx["discriminator"].strip("'()"))) is not None:
        return _wrong_type_error(param, ["a string"], tag)
    match kind:
        case "missing" | "union_tag_not_found":
            message, code = f"Missing required parameter: '{param}'.", "missing_required_parameter"
        case "extra_forbidden":
            message, code = f"Unknown parameter: '{param}'.", "unknown_parameter"
        case "literal_error":
            message, code = (
                f"Invalid value for '{param}': {_quote(given)}. Expected {ctx['expected']}.",
                "invalid_value",
            )
        case "union_tag_invalid":
            expected = " or ".join(ctx["expected_tags"].rsplit(", ", 1))
            message, code = f"Invalid value for '{param}': {_quote(ctx['tag'])}. Expected {expected}.", "invalid_value"
        case _:
            reason = _LIMIT_MESSAGES[kind].format(**ctx) if kind in _LIMIT_MESSAGES else error["msg"]
            got = f", but got {given}" if isinstance(given, int | float) else ""
            message, code = f"Invalid value for '{param}': {reason}{got}.", "invalid_value"
    return InvalidRequest(message, param=param, code=code)


def _quote(text: str) -> str:
    return f"'{text}'" if len(text) <= _MAX_QUOTED_CHARS else f"'{text[:_MAX_QUOTED_CHARS]}…'"
