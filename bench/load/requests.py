"""The requests of the load generator: their description, and their bytes."""

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import orjson

from bench.load.texts import write_phrases
from providers.base import Dialect

_QUESTION = "Say the tokens."
_PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class HistoryShape:
    """The items of the conversation before the question."""

    items: int = 0
    images: int = 0
    """The number of items that are user messages with an image."""
    image_bytes: int = 0
    scale: int = 1
    """The factor by which the texts are longer than in a plain conversation."""


@dataclass(frozen=True)
class LoadSpec:
    """A load: the requests and their server. No request starts after `seconds`, and open ones are read to the end."""

    port: int
    path: str
    model: str
    stream: bool
    connections: int
    seconds: float
    hold: bool = False
    fields: dict[str, Any] = field(default_factory=dict)
    """Further fields of the request body."""
    apart: bool = False
    """Whether paced streams start evenly over the duration of one, so that they do not end together."""
    history: HistoryShape = field(default_factory=HistoryShape)
    tools: int = 0
    """The number of function tools that the request declares."""
    resume: bool = False
    """Whether each connection gets one answer in the warm-up, and then measures the replay of that answer."""

    @classmethod
    def read(cls, content: str) -> "LoadSpec":
        """Parses a LoadSpec from its JSON."""
        fields = orjson.loads(content)
        return cls(**fields | {"history": HistoryShape(**fields["history"])})

    @property
    def dialect(self) -> Dialect:
        """The API of the requests."""
        return dialect_of(self.path)


def dialect_of(path: str) -> Dialect:
    """Returns the API of a path, or of the first line of a request."""
    if "/responses" in path:
        return "responses"
    return "messages" if "/messages" in path else "chat"


def build_request(spec: LoadSpec, model: str) -> bytes:
    """Returns the bytes of one request."""
    body: dict[str, Any] = {"model": model, "stream": spec.stream}
    if spec.dialect == "responses":
        items = [*_history_items(spec.history), build_question()] if spec.history.items else _QUESTION
        body |= {"input": items, "store": False}
    else:
        body["messages"] = [build_question()]
    if spec.dialect == "messages":
        # A client that does not ask for thinking gets none of it.
        body |= {"max_tokens": 32_000, "thinking": {"type": "adaptive"}}
    if spec.tools:
        body["tools"] = [_TOOL_FORMS[spec.dialect](number) for number in range(spec.tools)]
    content = orjson.dumps(body | spec.fields)
    return _head(spec, f"POST {spec.path}") + f"content-length: {len(content)}\r\n\r\n".encode() + content


def build_replay_request(spec: LoadSpec, response_id: str) -> bytes:
    """Returns the bytes of a request for the stream of a stored response, without its first event."""
    return _head(spec, f"GET {spec.path}/{response_id}?stream=true&starting_after=0") + b"\r\n"


def _head(spec: LoadSpec, start: str) -> bytes:
    return (
        f"{start} HTTP/1.1\r\nhost: 127.0.0.1:{spec.port}\r\ncontent-type: application/json\r\n"
        f"authorization: Bearer bench\r\n"
    ).encode()


def build_function_tool(number: int, *, nested: bool) -> dict[str, Any]:
    """Returns a function tool as agents declare it. With `nested` it has the form of chat."""
    properties = {
        "path": {"type": "string", "description": "The file to work on, relative to the folder that is open."},
        "words": {"type": "string", "description": "What to write there."},
        "mode": {"type": "string", "enum": ["append", "replace"]},
    }
    parameters = {"type": "object", "properties": properties, "required": ["words"], "additionalProperties": False}
    name = f"tool_{number}" if number else "write_words"
    function = {"name": name, "description": "Works on a file of the project.", "parameters": parameters}
    return {"type": "function", "function": function} if nested else {"type": "function", **function, "strict": False}


def _message_tool(number: int) -> dict[str, Any]:
    """Returns the same function tool in the form of the Messages API."""
    tool = build_function_tool(number, nested=False)
    return {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}


_TOOL_FORMS: Final[Mapping[Dialect, Callable[[int], dict[str, Any]]]] = {
    "responses": partial(build_function_tool, nested=False),
    "chat": partial(build_function_tool, nested=True),
    "messages": _message_tool,
}


def build_question() -> dict[str, Any]:
    """Returns the message that asks the question."""
    return {"role": "user", "content": _QUESTION}


def _history_items(history: HistoryShape) -> list[dict[str, Any]]:
    """Returns user messages, calls, outputs and answers in turn. The images are spread over the user messages."""
    kinds = [_user, _call, _output, _assistant]
    items = [kinds[number % len(kinds)](number // len(kinds), history.scale) for number in range(history.items)]
    users = items[:: len(kinds)]
    for number in range(history.images):
        text = {"type": "input_text", "text": write_phrases(1)}
        image = {"type": "input_image", "image_url": _image(history.image_bytes, number)}
        users[number * len(users) // history.images]["content"] = [text, image]
    return items


def _user(number: int, scale: int) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": f"{number}: {write_phrases(4 * scale)}"}


def _call(number: int, scale: int) -> dict[str, Any]:
    arguments = orjson.dumps({"path": f"folder/file-{number}.txt", "words": write_phrases(scale)}).decode()
    return {"type": "function_call", "call_id": f"call_{number}", "name": "read_file", "arguments": arguments}


def _output(number: int, scale: int) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": f"call_{number}", "output": write_phrases(8 * scale)}


def _assistant(number: int, scale: int) -> dict[str, Any]:
    text = {"type": "output_text", "text": f"{number}: {write_phrases(6 * scale)}", "annotations": []}
    return {"type": "message", "role": "assistant", "content": [text]}


def _image(size: int, number: int) -> str:
    """Returns a data URL of about `size` characters of base64. No two numbers give the same image."""
    content = _PNG + (b"%016d" % number) * (size * 3 // 4 // 16)
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"
