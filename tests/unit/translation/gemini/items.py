"""Items as a turn holds them, and the contents of Gemini they become."""

from typing import Any

from translation.representation.json_types import Item, Json


def reasoning(text: str | None = None, *details: Json) -> Item:
    summary = [] if text is None else [{"type": "summary_text", "text": text}]
    return {"type": "reasoning", "id": "rs", "summary": summary, "details": list(details)}


def call(call_id: str, arguments: str = "{}", name: str = "f") -> Item:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def output(call_id: str, content: Any = "done", **more: Any) -> Item:
    return {"type": "function_call_output", "call_id": call_id, "output": content, **more}


def user(*parts: Json | str) -> Json:
    return {"role": "user", "parts": [{"text": part} if isinstance(part, str) else part for part in parts]}


def model(*parts: Json | str) -> Json:
    return user(*parts) | {"role": "model"}


def called(call_id: str, signature: str | None = None, name: str = "f", **args: Any) -> Json:
    part: Json = {"functionCall": {"id": call_id, "name": name, "args": args}}
    return part | ({"thoughtSignature": signature} if signature else {})


def returned(call_id: str, response: Json | None = None, name: str = "f", **more: Any) -> Json:
    given = {"output": "done"} if response is None else response
    return {"functionResponse": {"id": call_id, "name": name, "response": given, **more}}


def signed(kind: str, signature: str = "s", **more: Any) -> Json:
    return {"type": f"gemini.{kind}", "signature": signature, **more}
