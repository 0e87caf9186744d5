"""What is asked of a server, and the bytes it is asked with."""

import base64
from dataclasses import dataclass, field
from typing import Any

import orjson

_QUESTION = "Say the tokens."
_WORDS = "some words of a conversation that has gone on for a while, "
_PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class History:
    """What was said before the question."""

    items: int = 0
    images: int = 0
    """So many of the items are users' messages with an image each."""
    image_bytes: int = 0
    scale: int = 1
    """How many times longer the texts are than those of a plain conversation."""


@dataclass(frozen=True)
class Spec:
    """What to ask, of whom, and how often. No request starts after `seconds`; those under way are read to the end."""

    port: int
    path: str
    model: str
    stream: bool
    connections: int
    seconds: float
    hold: bool = False
    fields: dict[str, Any] = field(default_factory=dict)
    """Further fields of the request's body."""
    apart: bool = False
    """Paced streams start evenly over the length of one, so that their ends do not come together."""
    history: History = field(default_factory=History)
    tools: int = 0
    """How many function tools the request declares."""
    resume: bool = False
    """Each connection has one answer made, and what is measured is the replay of that."""

    @classmethod
    def read(cls, content: str) -> "Spec":
        """From its JSON."""
        given = orjson.loads(content)
        return cls(**given | {"history": History(**given["history"])})

    @property
    def responses(self) -> bool:
        return self.path.endswith("/responses")


def request_bytes(spec: Spec, model: str) -> bytes:
    """One question."""
    body: dict[str, Any] = {"model": model, "stream": spec.stream}
    if spec.responses:
        body |= {"input": [*_said(spec.history), _question()] if spec.history.items else _QUESTION, "store": False}
    else:
        body["messages"] = [_question()]
    if spec.tools:
        body["tools"] = [_tool(number, nested=not spec.responses) for number in range(spec.tools)]
    content = orjson.dumps(body | spec.fields)
    return _head(spec, f"POST {spec.path}") + f"content-length: {len(content)}\r\n\r\n".encode() + content


def replay_bytes(spec: Spec, response_id: str) -> bytes:
    """A stored stream once more, but for its first event."""
    return _head(spec, f"GET {spec.path}/{response_id}?stream=true&starting_after=0") + b"\r\n"


def _head(spec: Spec, start: str) -> bytes:
    return (
        f"{start} HTTP/1.1\r\nhost: 127.0.0.1:{spec.port}\r\ncontent-type: application/json\r\n"
        f"authorization: Bearer bench\r\n"
    ).encode()


def _tool(number: int, *, nested: bool) -> dict[str, Any]:
    """A tool as agents declare them."""
    properties = {
        "path": {"type": "string", "description": "The file to work on, relative to the folder that is open."},
        "words": {"type": "string", "description": "What to write there."},
        "mode": {"type": "string", "enum": ["append", "replace"]},
    }
    parameters = {"type": "object", "properties": properties, "required": ["words"], "additionalProperties": False}
    name = f"tool_{number}" if number else "write_words"
    function = {"name": name, "description": "Works on a file of the project.", "parameters": parameters}
    return {"type": "function", "function": function} if nested else {"type": "function", **function, "strict": False}


def _question() -> dict[str, Any]:
    return {"role": "user", "content": _QUESTION}


def _said(history: History) -> list[dict[str, Any]]:
    """Messages of both sides, calls and their outputs in turns, the images spread over the users' messages."""
    kinds = [_user, _call, _output, _assistant]
    items = [kinds[number % len(kinds)](number // len(kinds), history.scale) for number in range(history.items)]
    users = items[:: len(kinds)]
    for number in range(history.images):
        text = {"type": "input_text", "text": _WORDS}
        image = {"type": "input_image", "image_url": _image(history.image_bytes, number)}
        users[number * len(users) // history.images]["content"] = [text, image]
    return items


def _user(number: int, scale: int) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": f"{number}: {_WORDS * 4 * scale}"}


def _call(number: int, scale: int) -> dict[str, Any]:
    arguments = orjson.dumps({"path": f"folder/file-{number}.txt", "words": _WORDS * scale}).decode()
    return {"type": "function_call", "call_id": f"call_{number}", "name": "read_file", "arguments": arguments}


def _output(number: int, scale: int) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": f"call_{number}", "output": _WORDS * 8 * scale}


def _assistant(number: int, scale: int) -> dict[str, Any]:
    text = {"type": "output_text", "text": f"{number}: {_WORDS * 6 * scale}", "annotations": []}
    return {"type": "message", "role": "assistant", "content": [text]}


def _image(size: int, number: int) -> str:
    """A data URL of `size` characters of base64, no two alike."""
    content = _PNG + (b"%016d" % number) * (size * 3 // 4 // 16)
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"
