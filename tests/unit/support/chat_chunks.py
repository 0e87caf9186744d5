"""Chunks and completions of chat upstreams, as tests write them down."""

from typing import Any

from translation.representation.json_types import Json

MODEL = "m"


def chunk(delta: Json | None = None, finish: str | None = None, **more: Any) -> Json:
    """A chunk with one choice; `more` goes beside the choices."""
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "model": MODEL, "choices": [choice], **more}


def text_chunk(text: str) -> Json:
    return chunk({"content": text})


def thought(text: str, field: str = "reasoning_content") -> Json:
    return chunk({field: text})


def call(index: int | None = None, *, id: str | None = None, name: str | None = None, arguments: Any = None) -> Json:
    """Returns one entry of `tool_calls`, without the keys that are not given."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    entry: Json = {"index": index, "id": id, "function": function}
    return {key: value for key, value in entry.items() if value is not None}


def calls(*entries: Json) -> Json:
    return chunk({"tool_calls": list(entries)})


def usage_only(**counts: Any) -> Json:
    return {"id": "c1", "object": "chat.completion.chunk", "model": MODEL, "choices": [], "usage": counts}


def completion(message: Json, finish: str | None = "stop", **more: Any) -> Json:
    """A whole answer."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion", "model": MODEL, "choices": [choice], **more}
