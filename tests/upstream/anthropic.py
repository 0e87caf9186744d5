"""Replies of the Messages API, in the form of its documentation."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from .builders import MODEL, Json, either, json_reply, named_frame, sse_reply
from .script import Reply, Script

USAGE: Json = {
    "input_tokens": 9,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "output_tokens": 1,
    "service_tier": "standard",
}


def text_block(text: str = "") -> Json:
    return {"type": "text", "text": text}


def thinking_block(thinking: str = "", signature: str = "") -> Json:
    return {"type": "thinking", "thinking": thinking, "signature": signature}


def call_block(name: str, call_id: str = "toolu_1", **given: Any) -> Json:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def message(*content: Json, stop_reason: str | None = "end_turn", usage: Json | None = None) -> Json:
    """A whole message."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": list(content),
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": USAGE | {"output_tokens": 3} if usage is None else usage,
    }


def opening(**usage: int) -> Json:
    return {"type": "message_start", "message": message(stop_reason=None, usage=USAGE | usage)}


def block(index: int, started: Json, *deltas: Json) -> list[Json]:
    """The events of one block."""
    return [
        {"type": "content_block_start", "index": index, "content_block": started},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text_deltas(*pieces: str) -> list[Json]:
    return [{"type": "text_delta", "text": piece} for piece in pieces]


def thought(*pieces: str, signature: str = "s1") -> list[Json]:
    signed = [{"type": "signature_delta", "signature": signature}] if signature else []
    return [*({"type": "thinking_delta", "thinking": piece} for piece in pieces), *signed]


def given(*pieces: str) -> list[Json]:
    return [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


def closing(stop_reason: str | None = "end_turn", **usage: int) -> list[Json]:
    delta = {"stop_reason": stop_reason, "stop_sequence": None}
    return [
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 3, **usage}},
        {"type": "message_stop"},
    ]


def text_events(*pieces: str) -> list[Json]:
    """The events of a plain text answer."""
    return [opening(), *block(0, text_block(), *text_deltas(*pieces)), *closing()]


def anthropic_sse(events: Iterable[Json]) -> Reply:
    return sse_reply(*map(named_frame, events))


def anthropic_text(*pieces: str) -> Script:
    return either(anthropic_sse(text_events(*pieces)), json_reply(message(text_block("".join(pieces)))))


def anthropic_calls(*calls: tuple[str, str, Json], thinking: Sequence[Json] = ()) -> Script:
    """Thinking blocks, then calls, each given as (id, name, arguments)."""
    events, content = [opening()], list(thinking)
    for index, each in enumerate(thinking):
        empty = {**each, "thinking": "", "signature": ""} if each["type"] == "thinking" else each
        deltas = thought(each["thinking"], signature=each["signature"]) if each["type"] == "thinking" else []
        events += block(index, empty, *deltas)
    for index, (call_id, name, arguments) in enumerate(calls, len(thinking)):
        text = json.dumps(arguments)
        events += block(index, call_block(name, call_id), *given("", text[:3], text[3:]))
        content.append(call_block(name, call_id, **arguments))
    return either(anthropic_sse([*events, *closing("tool_use")]), json_reply(message(*content, stop_reason="tool_use")))


def anthropic_error(status: int, kind: str, text: str) -> Reply:
    return json_reply({"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_1"}, status)
