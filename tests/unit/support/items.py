"""Items of a turn, as tests of lowering write them down."""

from base64 import b64encode
from typing import Any

from translation.representation.json_types import Item, Json

PNG = "data:image/png;base64,AAAA"
IMAGE = {"type": "input_image", "image_url": PNG}


def message(role: str, *parts: Json | str) -> Item:
    kind = "output_text" if role == "assistant" else "input_text"
    content = [{"type": kind, "text": part} if isinstance(part, str) else part for part in parts]
    return {"type": "message", "role": role, "content": content}


def user(*parts: Json | str) -> Item:
    return message("user", *parts)


def assistant(*parts: Json | str) -> Item:
    return message("assistant", *parts)


def call(call_id: str, arguments: str = "{}") -> Item:
    return {"type": "function_call", "id": "fc_1", "call_id": call_id, "name": "f", "arguments": arguments}


def output(call_id: str, result: str | list[Json] = "ok") -> Item:
    return {"type": "function_call_output", "call_id": call_id, "output": result}


def file(content: str, media_type: str = "text/plain", **more: Any) -> Json:
    data = b64encode(content.encode()).decode()
    return {"type": "input_file", "file_data": f"data:{media_type};base64,{data}", **more}
