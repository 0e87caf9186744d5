"""Every field of a chat request of Ollama's API below its parameters, each once.

A case is named as the schema names the field: the object it is in, and its key.
"""

from typing import Any, Final

from tests.unit.gateway.planning.every_field.field_cases import Case
from translation.representation.json_types import Json

_HI: Final[Json] = {"role": "user", "content": "Hi"}
_SCHEMA: Final[Json] = {"type": "object", "properties": {}}
_FIELD: Final[Json] = {"type": "object", "properties": {"FIELD": {"type": "string"}}}
_PIXEL: Final = "iVBORw0KGgo="


def _body(*messages: Json, **more: Any) -> Json:
    return {"messages": [*messages, _HI], **more}


def _message(key: str, plain: Json, value: Any, text: str | None = None) -> Case:
    return Case(f"messages.{key}", _body(_HI, plain), _body(_HI, {**plain, key: value}), text)


def _called(name: str = "f", **arguments: Any) -> Json:
    call = {"function": {"name": name, "arguments": arguments}}
    return _body(_HI, {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "content": "done"})


def _option(name: str, value: Any) -> tuple[str, Case]:
    return f"Options.{name}", Case(f"options.{name}", _body(), _body(options={name: value}))


def _tool(key: str, value: Any) -> tuple[str, Case]:
    function = {"name": "f", "parameters": _SCHEMA}
    asked = _body(tools=[{"function": {**function, key: value}}])
    return f"Function.{key}", Case(f"tools.{key}", _body(tools=[{"function": function}]), asked, "FIELD")


CASES: Final[dict[str, Case]] = {
    "Message.content": _message("content", {"role": "system", "content": "FIRST"}, "FIELD", "FIELD"),
    "Message.images": _message("images", {"role": "user", "content": "See"}, [_PIXEL], _PIXEL),
    "Message.thinking": _message("thinking", {"role": "assistant", "content": "So."}, "FIELD"),
    "FunctionCall.name": Case("messages.tool_calls", _called(), _called("FIELD"), "FIELD"),
    "FunctionCall.arguments": Case("messages.tool_calls", _called(), _called(a="FIELD"), "FIELD"),
    **dict(
        [
            _option("frequency_penalty", 0.5),
            _option("min_p", 0.5),
            _option("num_predict", 99),
            _option("presence_penalty", 0.5),
            _option("repeat_penalty", 1.5),
            _option("seed", 3),
            _option("stop", "END"),
            _option("temperature", 0.5),
            _option("top_k", 3),
            _option("top_p", 0.5),
            _option("num_ctx", 4096),
            _option("mirostat", 1),
            _tool("name", "FIELD"),
            _tool("description", "FIELD"),
            _tool("parameters", _FIELD),
        ]
    ),
}
