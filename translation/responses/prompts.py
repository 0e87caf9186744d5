"""Stored prompts: which bodies describe one, and what becomes of a request that refers to one."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import orjson

from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.validation import refuse_unknown_names

_VARIABLE: Final = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]{0,63})\s*\}\}")
_VERSION: Final = re.compile(r"[0-9]{1,6}")
_TEXT_KEYS: Final = {"name": 256, "description": 2000, "model": 256, "instructions": 200_000}
"""The keys with a text -> the most characters."""

_KEYS: Final = frozenset({*_TEXT_KEYS, "messages", "defaults"})
_ROLES: Final = ("system", "developer", "user", "assistant")
_PART_TYPES: Final = ("input_text", "input_image", "input_file")
_MAX_MESSAGES: Final = 50
_MAX_MESSAGE_CHARS: Final = 200_000
_MAX_VARIABLES: Final = 100
_MAX_PROMPT_CHARS: Final = 1_000_000
"""The characters of all texts of a prompt."""

_MAX_PLACES: Final = 10_000
"""The places of variables. Each may become a part of a message."""

_MAX_RENDERED_CHARS: Final = 10_000_000


class MergedPrompt(NamedTuple):
    """The body of a request with its prompt, whose values included it has `size` characters."""

    body: Json
    size: int


def read_prompt(body: Json) -> Json:
    """Returns the content of a prompt that a body describes, with the names of its variables.

    Raises InvalidRequest for a body that describes none.
    """
    refuse_unknown_names(body, _KEYS)
    content: Json = {}
    for key, most in _TEXT_KEYS.items():
        if (value := body.get(key)) is not None:
            content[key] = _read_text(value, key, most)
    messages = body.get("messages")
    if messages is not None:
        content["messages"] = [*_read_messages(messages)]
    if not (content.get("instructions") or content.get("messages")):
        raise InvalidRequest(
            "a prompt has instructions or messages", param="instructions", code="missing_required_parameter"
        )
    texts = _list_texts(content)
    if (length := sum(map(len, texts))) > _MAX_PROMPT_CHARS:
        message = f"the texts of the prompt have {length} characters; at most {_MAX_PROMPT_CHARS} are allowed"
        raise InvalidRequest(message, param="messages")
    places = [name for text in texts for name in _VARIABLE.findall(text)]
    if len(places) > _MAX_PLACES:
        message = f"a prompt has variables at {_MAX_PLACES} places at most, and this at {len(places)}"
        raise InvalidRequest(message, param="messages")
    variables = [*dict.fromkeys(places)]  # in the order in which they first appear
    if len(variables) > _MAX_VARIABLES:
        raise InvalidRequest(
            f"a prompt has at most {_MAX_VARIABLES} variables, and this has {len(variables)}", param="messages"
        )
    content["defaults"] = _read_defaults(body.get("defaults"), variables)
    return {**content, "variables": variables}


def merge_prompt(body: Json, content: Json, variables: Any) -> MergedPrompt:
    """Returns the body of a request in which this prompt takes the place of its reference to it, and its size.

    Messages of the prompt precede the input; `instructions` and `model` of the request have precedence. Raises
    InvalidRequest for variables that are missing, unknown or malformed.
    """
    values = _read_values(variables, content)
    size = _measure(content, values)
    merged = {key: value for key, value in body.items() if key != "prompt"}
    if (instructions := content.get("instructions")) and not body.get("instructions"):
        merged["instructions"] = _VARIABLE.sub(lambda match: _text_of(match[1], values[match[1]]), instructions)
    if (model := content.get("model")) and not body.get("model"):
        merged["model"] = model
    messages = [_render_message(message, values) for message in content.get("messages") or ()]
    own = body.get("input")
    items = [{"role": "user", "content": own}] if isinstance(own, str) else own or []
    if not isinstance(items, list):
        return MergedPrompt(merged, size)  # the validator refuses it by name
    if messages or items:
        merged["input"] = [*messages, *items]
    return MergedPrompt(merged, size)


def _read_messages(messages: Any) -> Iterator[Json]:
    if not isinstance(messages, list):
        raise InvalidRequest("messages must be an array", param="messages", code="invalid_type")
    if len(messages) > _MAX_MESSAGES:
        raise InvalidRequest(f"a prompt has at most {_MAX_MESSAGES} messages", param="messages")
    for position, message in enumerate(messages):
        param = f"messages[{position}]"
        if not isinstance(message, dict):
            raise InvalidRequest("a message is an object", param=param, code="invalid_type")
        if message.get("role") not in _ROLES:
            raise InvalidRequest(f"the role must be one of {', '.join(_ROLES)}", param=f"{param}.role")
        for key in message.keys() - {"role", "content"}:
            raise InvalidRequest(
                f"Unknown parameter: '{key:.80}'.", param=f"{param}.{key:.80}", code="unknown_parameter"
            )
        text = _read_text(message.get("content"), f"{param}.content", _MAX_MESSAGE_CHARS)
        yield {"role": message["role"], "content": text}


def _read_text(value: Any, param: str, most: int) -> str:
    if not isinstance(value, str):
        raise InvalidRequest(f"{param} must be a text", param=param, code="invalid_type")
    if len(value) > most:
        raise InvalidRequest(f"{param} has {len(value)} characters; at most {most} are allowed", param=param)
    return value


def _list_texts(content: Json) -> list[str]:
    return [content.get("instructions") or "", *(message["content"] for message in content.get("messages") or ())]


def _read_defaults(defaults: Any, variables: list[str]) -> Json:
    if defaults is None:
        return {}
    if not isinstance(defaults, dict):
        raise InvalidRequest("defaults must be an object", param="defaults", code="invalid_type")
    for name, value in defaults.items():
        param = f"defaults.{name:.80}"
        if name not in variables:
            raise InvalidRequest(f"no text of the prompt has the variable {name[:80]!r}", param=param)
        _read_text(value, param, _MAX_MESSAGE_CHARS)
    return defaults


def _read_values(variables: Any, content: Json) -> Mapping[str, Any]:
    """Returns the values of all variables. Raises InvalidRequest, with the name of the variable as the parameter."""
    if variables is not None and not isinstance(variables, dict):
        raise InvalidRequest("variables must be an object", param="prompt.variables", code="invalid_type")
    given: Json = variables or {}
    names: list[str] = content["variables"]
    for name, value in given.items():
        param = f"prompt.variables.{name:.80}"
        if name not in names:
            raise InvalidRequest(
                f"the prompt has no variable {name[:80]!r}", param=param, code="unknown_prompt_variable"
            )
        if not (isinstance(value, str) or (isinstance(value, dict) and value.get("type") in _PART_TYPES)):
            message = f"a variable is a text, or a part of a type among {', '.join(_PART_TYPES)}"
            raise InvalidRequest(message, param=param, code="invalid_type")
    values = {**content.get("defaults", {}), **given}
    for name in names:
        if name not in values:
            raise InvalidRequest(
                f"the prompt needs a value of the variable {name!r}: send it in prompt.variables",
                param=f"prompt.variables.{name}",
                code="missing_prompt_variable",
            )
    return values


def _measure(content: Json, values: Mapping[str, Any]) -> int:
    """Returns the characters of a prompt with its values, at each place of them. Raises InvalidRequest if they are too
    many, before the prompt is made."""
    sizes = {name: _measure_value(values[name]) for name in content["variables"]}
    size = 0
    for text in _list_texts(content):
        size += len(text) + sum(sizes[name] for name in _VARIABLE.findall(text))
    if size > _MAX_RENDERED_CHARS:
        raise InvalidRequest(
            f"the prompt with its variables has {size} characters; at most {_MAX_RENDERED_CHARS} are allowed",
            param="prompt.variables",
        )
    return size


def _measure_value(value: Any) -> int:
    """Returns the characters of a text, or the bytes of a part as JSON."""
    return len(value) if isinstance(value, str) else len(orjson.dumps(value))


def _text_of(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if value["type"] == "input_text" and isinstance(text := value.get("text"), str):
        return text
    raise InvalidRequest(
        f"the variable {name!r} stands where only a text can be: an image or a file belongs into a message of the user",
        param=f"prompt.variables.{name}",
    )


def _render_message(message: Json, values: Mapping[str, Any]) -> Json:
    pieces = _VARIABLE.split(message["content"])
    is_plain = message["role"] != "user" or all(
        isinstance(values[name], str) or values[name]["type"] == "input_text" for name in pieces[1::2]
    )
    if is_plain:
        texts = [_text_of(piece, values[piece]) if place % 2 else piece for place, piece in enumerate(pieces)]
        return {"role": message["role"], "content": "".join(texts)}
    parts: list[Json] = []
    for place, piece in enumerate(pieces):
        value = values[piece] if place % 2 else piece
        if isinstance(value, str):
            if value:
                parts.append({"type": "input_text", "text": value})
        else:
            parts.append(value)
    return {"role": "user", "content": parts}


def read_version(value: Any, param: str) -> int | None:
    """Returns the number of a version, which clients write as a text; None without one. Raises InvalidRequest."""
    if value is None:
        return None
    if not isinstance(value, str) or not _VERSION.fullmatch(value):
        raise InvalidRequest("a version is a text with a number, such as '2'", param=param, code="invalid_type")
    return int(value)
