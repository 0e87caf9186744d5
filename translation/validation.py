"""Validates a request body against its schema, with the error messages and codes of the OpenAI API.

Schemas are `TypedDict`s that allow unknown keys. The body itself is used further, not what pydantic makes of it.
Every schema must match an object with a `type` or `role` by a union that is discriminated by that key.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Annotated, Any, TypeAlias

from pydantic import Discriminator, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, SchemaValidator

from translation.errors import InvalidRequest

Name: TypeAlias = Annotated[str, Field(min_length=1)]
Penalty: TypeAlias = Annotated[float, Field(ge=-2, le=2)]
Metadata: TypeAlias = Annotated[
    dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]], Field(max_length=16)
]
"""The `metadata` of a stored object. OpenAI has the same limits in every API."""

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
"""pydantic's error type -> the name of the expected type in the message."""

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
    "string_pattern_mismatch": "it must match {pattern}",
    "string_too_long": "at most {max_length} characters are allowed",
    "string_too_short": "it must not be shorter than {min_length}",
    "too_long": "at most {max_length} entries are allowed",
    "too_short": "it must not be shorter than {min_length}",
}
"""pydantic's error type -> the rule in the message. For other types the message is pydantic's own."""

_MAX_QUOTED_CHARS = 100


def build_adapter(kind: Any) -> TypeAdapter[Any]:
    """Returns the adapter of a type, for `check_body`. Build it once: it takes milliseconds.

    It stops at the first error in each list and each object of arbitrary keys. One error is reported, so the others
    would only cost time: some microseconds each, and a body has room for millions.
    """
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    _stop_at_first_errors(adapter.core_schema)
    adapter.validator = SchemaValidator(adapter.core_schema)
    return adapter


def _stop_at_first_errors(schema: Any) -> None:
    if isinstance(schema, dict):
        if schema.get("type") in ("list", "dict"):
            schema["fail_fast"] = True
        for part in schema.values():
            _stop_at_first_errors(part)
    elif isinstance(schema, list | tuple):
        for part in schema:
            _stop_at_first_errors(part)


def check_body(adapter: TypeAdapter[Any], body: object) -> None:
    """Raises InvalidRequest unless `body`, as parsed from JSON, matches the adapter's schema.

    Types are strict: a boolean is no integer, a number with a fraction is no integer, a string is no number. The
    error's `param` is the dotted path as OpenAI writes it (`messages[1].content[0].type`). Its `code` is one of
    missing_required_parameter, invalid_type, invalid_value, unknown_parameter.
    """
    try:
        adapter.validator.validate_python(body, strict=True)
    except ValidationError as invalid:
        raise _choose_error(invalid.errors(include_url=False), body) from None


def refuse_unknown_names(names: Iterable[str], known: Collection[str], prefix: str = "") -> None:
    """Raises InvalidRequest for the first of the parameters of an object that is not known.

    `prefix` is the place of the object in its request, such as `files[1].`.
    """
    for name in names:
        if name not in known:
            param = f"{prefix}{name:.80}"
            raise InvalidRequest(f"Unknown parameter: '{param}'.", param=param, code="unknown_parameter")


def require_name(param: str, value: object) -> str:
    """Returns the name that this parameter must have. Raises InvalidRequest if it is absent, null, empty or no text."""
    if value in (None, ""):
        raise InvalidRequest(f"{param} is required", param=param, code="missing_required_parameter")
    if not isinstance(value, str):
        raise _wrong_type_error(param, ["a string"], value)
    return value


def discriminate_by_shape(plain: type) -> Discriminator:
    """Returns a discriminator for a union of a list or text and an object: the tags are "plain" and "object"."""
    return Discriminator(lambda value: "plain" if isinstance(value, plain) else "object")


def discriminate_by(key: str, default: str | None = None) -> Discriminator:
    """Returns a discriminator for a union of `Annotated[X, Tag(value)]`: the tag is the object's value of `key`.

    `default` is the tag of objects without the key; without a default the key is required. The default must not be the
    name of a key whose value is not an object.
    """

    def choose(value: object) -> str | None:
        if not isinstance(value, dict):
            return None
        chosen = value.get(key)
        return default if chosen is None else chosen if isinstance(chosen, str) else None

    choose.__name__ = key
    return Discriminator(choose)


def _choose_error(errors: Sequence[ErrorDetails], body: object) -> InvalidRequest:
    """Selects the error to report: the deepest of the first field with errors, as that union member fitted best."""
    if not isinstance(body, dict):
        return InvalidRequest("The request body must be a JSON object.", param=None, code="invalid_type")
    located = [(_locate(error, body), error) for error in errors]
    field = located[0][0][:1]
    located = [pair for pair in located if pair[0][:1] == field]
    deepest = max(located, key=lambda pair: len(pair[0]))[0]
    candidates = [error for path, error in located if path == deepest]
    param = render_param_path(deepest)
    wrong_types = [error for error in candidates if _is_wrong_type(error)]
    if len(wrong_types) < len(candidates):
        return _render_error(next(error for error in candidates if not _is_wrong_type(error)), param)
    return _wrong_type_error(param, [_EXPECTED_TYPES[error["type"]] for error in wrong_types], wrong_types[0]["input"])


def render_param_path(path: Iterable[str | int]) -> str:
    """Renders a path as OpenAI does: `("messages", 1, "content")` as `messages[1].content`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def _locate(error: ErrorDetails, body: object) -> tuple[str | int, ...]:
    """Returns the path of an error in the body: pydantic's location without the steps that name union members."""
    node: Any = body
    path: list[str | int] = []
    untagged = True
    *_, last = error["loc"] or ("",)
    for step in error["loc"]:
        if isinstance(node, dict) and untagged and step in (node.get("type"), node.get("role")):
            untagged = False
            continue
        try:
            node = node[step]
        except (KeyError, TypeError):
            continue
        path.append(step)
        untagged = True
    if error["type"] == "missing":
        path.append(last)
    elif error["type"].startswith("union_tag_") and isinstance(node, dict):
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
        f"Invalid type for '{param}': expected {choices}, "
        f"but got {_TYPE_NAMES.get(type(got), 'something else')} instead.",
        param=param,
        code="invalid_type",
    )


def _render_error(error: ErrorDetails, param: str) -> InvalidRequest:
    kind, value, ctx = error["type"], error["input"], error.get("ctx", {})
    if kind == "union_tag_not_found" and (tag := value.get(ctx["discriminator"].strip("'()"))) is not None:
        return _wrong_type_error(param, ["a string"], tag)
    match kind:
        case "missing" | "union_tag_not_found":
            message, code = f"Missing required parameter: '{param}'.", "missing_required_parameter"
        case "extra_forbidden":
            message, code = f"Unknown parameter: '{param}'.", "unknown_parameter"
        case "literal_error":
            message, code = (
                f"Invalid value for '{param}': {_quote(value)}. Expected {ctx['expected']}.",
                "invalid_value",
            )
        case "union_tag_invalid":
            expected = " or ".join(ctx["expected_tags"].rsplit(", ", 1))
            message, code = f"Invalid value for '{param}': {_quote(ctx['tag'])}. Expected {expected}.", "invalid_value"
        case _:
            reason = _LIMIT_MESSAGES[kind].format(**ctx) if kind in _LIMIT_MESSAGES else error["msg"]
            got = f", but got {value}" if isinstance(value, int | float) else ""
            message, code = f"Invalid value for '{param}': {reason}{got}.", "invalid_value"
    return InvalidRequest(message, param=param, code=code)


def _quote(text: str) -> str:
    return f"'{text}'" if len(text) <= _MAX_QUOTED_CHARS else f"'{text[:_MAX_QUOTED_CHARS]}…'"
