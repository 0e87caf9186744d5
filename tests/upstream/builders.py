"""Replies in the two OpenAI dialects, and recorded streams from files.

Each builder returns a reply that can be handed to `ScriptedUpstream.on`. `chat_text`, `chat_calls` and
`responses_text` look at the request and answer with a stream or a JSON body, whichever it asks for.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from .script import Exchange, Reply, Script, Step

Json = dict[str, Any]

SSE = {"content-type": "text/event-stream; charset=utf-8"}
JSON = {"content-type": "application/json"}
DONE = b"data: [DONE]\n\n"
MODEL = "scripted-model"
CREATED = 1_700_000_000
CHAT_USAGE: Json = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
RESPONSES_USAGE: Json = {
    "input_tokens": 9,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 3,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 12,
}


def dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def json_reply(body: object, status: int = 200, headers: dict[str, str] | None = None) -> Reply:
    return Reply(status, {**JSON, **(headers or {})}, dump(body), framing="length")


def error_reply(status: int, message: str, *, code: str | None = None, headers: dict[str, str] | None = None) -> Reply:
    """Returns an error reply in OpenAI's form."""
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return json_reply({"error": error}, status, headers)


def sse_reply(*steps: Step) -> Reply:
    """A stream made of these steps, all bytes of it given by the caller."""
    return Reply(headers=SSE, body=steps)


def data_frame(value: object) -> bytes:
    return b"data: " + dump(value) + b"\n\n"


def named_frame(event: Json) -> bytes:
    return b"event: " + event["type"].encode() + b"\n" + data_frame(event)


def replay(recording: Path) -> Reply:
    """A recorded stream, byte for byte."""
    return Reply(headers=SSE, body=recording.read_bytes())


def either(streamed: Reply, whole: Reply) -> Script:
    """Replies with a stream if the request asks for one, else with the JSON body."""

    async def play(exchange: Exchange) -> None:
        await (streamed if exchange.request.streams else whole)(exchange)

    return play


def chat_chunk(
    delta: Json | None = None, finish_reason: str | None = None, *, usage: Json | None = None, **more: Any
) -> Json:
    """One chat.completion.chunk; with neither a delta nor a reason, the usage-only chunk at the end of a stream."""
    choices = [{"index": 0, "delta": delta or {}, "finish_reason": finish_reason}]
    chunk = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": MODEL,
        "choices": choices if delta is not None or finish_reason else [],
        **more,
    }
    return {**chunk, "usage": usage} if usage else chunk


def chat_sse(chunks: Iterable[Json], *, done: bool = True) -> Reply:
    """A chat stream of these chunks, each one HTTP chunk of its own."""
    return sse_reply(*map(data_frame, chunks), *([DONE] if done else []))


def whole_chat(
    content: str | None = None, *, finish_reason: str = "stop", usage: Json | None = None, **message: Any
) -> Json:
    """A whole chat completion; further arguments are fields of its message."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": content, **message},
        "finish_reason": finish_reason,
    }
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": CREATED,
        "model": MODEL,
        "choices": [choice],
        "usage": CHAT_USAGE if usage is None else usage,
    }


def chat_json(
    content: str | None = None, *, finish_reason: str = "stop", usage: Json | None = None, **message: Any
) -> Reply:
    """A whole chat completion as a reply."""
    return json_reply(whole_chat(content, finish_reason=finish_reason, usage=usage, **message))


def text_chunks(*pieces: str, finish_reason: str = "stop", usage: Json | None = None) -> list[Json]:
    """The chunks of a plain text answer: role, pieces, reason, usage."""
    return [
        chat_chunk({"role": "assistant", "content": ""}),
        *(chat_chunk({"content": piece}) for piece in pieces),
        chat_chunk({}, finish_reason),
        chat_chunk(usage=CHAT_USAGE if usage is None else usage),
    ]


def chat_text(*pieces: str, finish_reason: str = "stop", usage: Json | None = None) -> Script:
    """A plain text answer."""
    return either(
        chat_sse(text_chunks(*pieces, finish_reason=finish_reason, usage=usage)),
        chat_json("".join(pieces), finish_reason=finish_reason, usage=usage),
    )


def chat_calls(*calls: tuple[str, str]) -> Script:
    """An answer that calls functions, each given as (name, arguments); arguments arrive after the name."""
    chunks = [chat_chunk({"role": "assistant", "content": None})]
    for index, (name, arguments) in enumerate(calls):
        opening = {
            "index": index,
            "id": f"call_{index}",
            "type": "function",
            "function": {"name": name, "arguments": ""},
        }
        chunks += [
            chat_chunk({"tool_calls": [opening]}),
            chat_chunk({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}),
        ]
    whole = [
        {"id": f"call_{index}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for index, (name, arguments) in enumerate(calls)
    ]
    return either(
        chat_sse([*chunks, chat_chunk({}, "tool_calls"), chat_chunk(usage=CHAT_USAGE)]),
        chat_json(finish_reason="tool_calls", tool_calls=whole),
    )


def responses_sse(events: Sequence[Json], *, done: bool = True) -> Reply:
    """A Responses stream; events without a sequence number get the next one."""
    numbered = [{"type": event["type"], "sequence_number": number, **event} for number, event in enumerate(events)]
    return sse_reply(*map(named_frame, numbered), *([DONE] if done else []))


def response_snapshot(status: str, output: Sequence[Json] = (), **more: Any) -> Json:
    """A response object with every key the official types require."""
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": CREATED,
        "completed_at": CREATED if status == "completed" else None,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": MODEL,
        "output": list(output),
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": RESPONSES_USAGE if status == "completed" else None,
        **more,
    }


def message_item(text: str, status: str = "completed") -> Json:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"id": "msg_1", "type": "message", "role": "assistant", "status": status, "content": [part]}


def text_events(*pieces: str) -> list[Json]:
    """The events of a plain text answer, in the order OpenAI sends them."""
    text = "".join(pieces)
    whole = message_item(text)
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    return [
        {"type": "response.created", "response": response_snapshot("in_progress")},
        {"type": "response.in_progress", "response": response_snapshot("in_progress")},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**whole, "status": "in_progress", "content": []},
        },
        {"type": "response.content_part.added", **place, "part": {**whole["content"][0], "text": ""}},
        *({"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []} for piece in pieces),
        {"type": "response.output_text.done", **place, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **place, "part": whole["content"][0]},
        {"type": "response.output_item.done", "output_index": 0, "item": whole},
        {"type": "response.completed", "response": response_snapshot("completed", [whole])},
    ]


def responses_text(*pieces: str) -> Script:
    """A plain text answer."""
    return either(
        responses_sse(text_events(*pieces)),
        json_reply(response_snapshot("completed", [message_item("".join(pieces))])),
    )
