"""What a client sees of one reply, in the same form for both APIs and for streams and JSON.

Reading is strict: a stream that is not well formed to its last frame fails the test that reads it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from tests.unit.support.stream_checks.gemini_order import check_content_reply, check_content_stream, read_chunks
from tests.unit.support.stream_checks.messages_order import check_message_stream, read_frames
from tests.unit.support.stream_checks.ollama_order import check_lines, read_lines

Json = dict[str, Any]

RESPONSES = "/responses"
CHAT = "/chat/completions"
MESSAGES = "/messages"
OLLAMA = "/api/chat"
GEMINI = "/models"
"""APIs that have the model and the form of the reply in the path of a request, see `address_of`."""
_ENDINGS = {"response.completed": "completed", "response.incomplete": "incomplete", "response.failed": "failed"}
_PATIENCE_S = 60.0


@dataclass(frozen=True)
class Seen:
    """One reply. `code` is that of the error body, or of the end of a stream; calls are (name, arguments)."""

    status: int
    ending: str
    code: str | None = None
    text: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    usage: tuple[int, int] | None = field(default=None, compare=False)
    """(input, output) tokens, where reported."""


def question(path: str, *, stream: bool, **more: Any) -> Json:
    if path == GEMINI:
        contents = [{"role": "user", "parts": [{"text": "Hello"}]}]
        return {"model": "scripted-model", "stream": stream, "contents": contents, **more}
    body: Json = {"input": "Hello"} if path == RESPONSES else {"messages": [{"role": "user", "content": "Hello"}]}
    if path == MESSAGES:
        body["max_tokens"] = 1000
    return {"model": "scripted-model", "stream": stream, **body, **more}


def address_of(path: str, asked: Json) -> str:
    """Returns the path of a request, below the base URL."""
    if path != GEMINI:
        return path
    return f"{path}/{asked['model']}:" + ("streamGenerateContent?alt=sse" if asked["stream"] else "generateContent")


def client() -> httpx.AsyncClient:
    """A client that does without certificates: reading them takes longer than most tests."""
    return httpx.AsyncClient(timeout=_PATIENCE_S, verify=False, trust_env=False)


async def ask(base_url: str, path: str, *, stream: bool, **more: Any) -> Seen:
    """Sends a request, and reads its reply to the end."""
    async with client() as asking:
        return await ask_with(asking, base_url, path, stream=stream, **more)


async def ask_with(asking: httpx.AsyncClient, base_url: str, path: str, *, stream: bool, **more: Any) -> Seen:
    """Sends a request with a reused client."""
    body = question(path, stream=stream, **more)
    root = base_url.removesuffix("/v1") if path == OLLAMA else base_url
    reply = await asking.post(root + address_of(path, body), json=body)
    return read(path, reply, stream=stream)


def read(path: str, reply: httpx.Response, *, stream: bool) -> Seen:
    assert "x-request-id" in reply.headers
    if path == OLLAMA:
        return _read_ollama(reply, stream=stream)
    if reply.status_code != 200:
        return _ERROR_READERS.get(path, _read_error)(reply)
    if stream:
        assert reply.headers["content-type"].startswith("text/event-stream")
        if path in _WIRE_READERS:
            return _WIRE_READERS[path](reply.content)
        return _STREAM_READERS[path](frames(reply.content))
    assert reply.headers["content-type"] == "application/json"
    return _WHOLE_READERS[path](reply.json())


def _read_ollama(reply: httpx.Response, *, stream: bool) -> Seen:
    if reply.status_code != 200:
        assert [*reply.json()] == ["error"]
        return Seen(reply.status_code, "refused")
    if not stream:
        message = reply.json()["message"]
        return Seen(200, "completed", None, message["content"], message.get("thinking", ""))
    assert reply.headers["content-type"] == "application/x-ndjson"
    *lines, last = read_lines(reply.content)
    text = "".join(line["message"]["content"] for line in lines)
    if "error" in last:
        return Seen(200, "failed", None, text)
    message = check_lines(reply.content)["message"]
    return Seen(200, "completed", None, message["content"], message.get("thinking", ""))


def frames(stream: bytes) -> list[tuple[str | None, str]]:
    """Returns (event, data) of every frame. Checks that frames end in LF and the last one is [DONE]."""
    assert b"\r" not in stream
    assert stream.endswith(b"data: [DONE]\n\n")
    found = [_frame(frame) for frame in stream.decode().removesuffix("\n\n").split("\n\n")]
    whole = [frame for frame in found if frame is not None]
    assert [data for _, data in whole].count("[DONE]") == 1
    return whole[:-1]


def _frame(frame: str) -> tuple[str | None, str] | None:
    fields = [line.partition(": ") for line in frame.split("\n") if not line.startswith(":")]
    assert all(name in ("event", "data", "id", "retry") for name, _, _ in fields), frame
    event = next((value for name, _, value in fields if name == "event"), None)
    data = [value for name, _, value in fields if name == "data"]
    return (event, "\n".join(data)) if data else None


def _read_error(reply: httpx.Response) -> Seen:
    error = reply.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    return Seen(reply.status_code, "refused", error["code"])


def _read_responses_stream(stream: list[tuple[str | None, str]]) -> Seen:
    events = [json.loads(data) for _, data in stream]
    assert [event["type"] for event in events] == [name for name, _ in stream]
    assert events[0]["type"] == "response.created"
    endings = [event for event in events if event["type"] in _ENDINGS]
    assert endings == events[-1:], "the one terminal event comes last"
    assert len({event["response"]["id"] for event in events if "response" in event}) == 1
    seen = _read_response(endings[0]["response"])
    assert seen.ending == _ENDINGS[endings[0]["type"]]
    streamed = replace(
        seen,
        text=_joined(events, "response.output_text.delta"),
        reasoning=_joined(events, "response.reasoning_text.delta"),
    )
    assert seen.ending == "failed" or seen == streamed, "the snapshot is what was streamed"
    return streamed


def _joined(events: list[Json], kind: str) -> str:
    return "".join(event["delta"] for event in events if event["type"] == kind)


def _read_response(response: Json) -> Seen:
    error, usage, output = response["error"], response["usage"], response["output"]
    calls = [item for item in output if item["type"] == "function_call"]
    assert len({call["call_id"] for call in calls}) == len(calls), "each call can be answered by its id"
    return Seen(
        200,
        response["status"],
        # `code` is from a closed list; where ours is not on it, `type` has it.
        error and (error["type"] if error["code"] == "server_error" else error["code"]),
        _text_of(output, "message"),
        _text_of(output, "reasoning"),
        tuple((call["name"], call["arguments"]) for call in calls),
        (usage["input_tokens"], usage["output_tokens"]) if usage else None,
    )


def _text_of(output: list[Json], kind: str) -> str:
    parts = [part for item in output if item["type"] == kind for part in item.get("content") or ()]
    return "".join(part.get("text", "") for part in parts)


def _read_chat_stream(stream: list[tuple[str | None, str]]) -> Seen:
    chunks = [json.loads(data) for _, data in stream]
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    reasons = [choice["finish_reason"] for choice in choices if choice["finish_reason"]]
    assert len(reasons) == 1, "a stream ends once"
    errors = [chunk["error"] for chunk in chunks if "error" in chunk]
    assert len(errors) == (reasons == ["error"])
    deltas = [choice["delta"] for choice in choices]
    usages = [chunk["usage"] for chunk in chunks if chunk.get("usage")]
    message = {
        "content": "".join(delta.get("content") or "" for delta in deltas),
        "reasoning": "".join(delta.get("reasoning") or "" for delta in deltas),
        "tool_calls": _joined_calls(deltas),
    }
    return _seen_message(message, reasons[0], errors[0]["code"] if errors else None, usages[-1] if usages else None)


def _joined_calls(deltas: list[Json]) -> list[Json]:
    """Calls as the official SDKs add them up: by index, identity from the first delta, arguments appended."""
    calls: dict[int, Json] = {}
    for call in (call for delta in deltas for call in delta.get("tool_calls") or ()):
        function = call["function"]
        known = calls.setdefault(call["index"], {"id": call.get("id"), "function": {"name": "", "arguments": ""}})
        known["function"]["name"] += function.get("name") or ""
        known["function"]["arguments"] += function.get("arguments") or ""
    assert sorted(calls) == list(range(len(calls)))
    return list(calls.values())


def _read_completion(completion: Json) -> Seen:
    choice = completion["choices"][0]
    return _seen_message(choice["message"], choice["finish_reason"], None, completion.get("usage"))


def _seen_message(message: Json, reason: str, code: str | None, usage: Json | None) -> Seen:
    calls = message.get("tool_calls") or []
    assert len({call["id"] for call in calls}) == len(calls), "each call can be answered by its id"
    special: Mapping[str, str] = {"error": "failed", "length": "incomplete", "content_filter": "incomplete"}
    return Seen(
        200,
        special.get(reason, "completed"),
        code,
        message["content"] or "",
        message.get("reasoning") or "",
        tuple((call["function"]["name"], call["function"]["arguments"]) for call in calls),
        (usage["prompt_tokens"], usage["completion_tokens"]) if usage else None,
    )


def _read_messages_error(reply: httpx.Response) -> Seen:
    body = reply.json()
    assert body.keys() == {"type", "error", "request_id"}
    assert reply.headers["request-id"] == body["request_id"]
    assert body["error"]["message"]
    return Seen(reply.status_code, "refused", body["error"]["type"])


def _read_messages_stream(wire: bytes) -> Seen:
    *events, end = read_frames(wire)
    if end["type"] == "message_stop":
        return _read_message(check_message_stream(wire))
    assert end["type"] == "error"
    assert not any(event["type"] in ("error", "message_stop") for event in events), "a stream ends once"
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    return Seen(200, "failed", end["error"]["type"], "".join(delta.get("text", "") for delta in deltas))


def _read_message(message: Json) -> Seen:
    blocks, usage = message["content"], message["usage"]
    return Seen(
        200,
        "incomplete" if message["stop_reason"] in ("max_tokens", "refusal") else "completed",
        None,
        "".join(block["text"] for block in blocks if block["type"] == "text"),
        "".join(block["thinking"] for block in blocks if block["type"] == "thinking"),
        tuple((block["name"], json.dumps(block["input"])) for block in blocks if block["type"] == "tool_use"),
        (usage["input_tokens"], usage["output_tokens"]),
    )


def _read_status(reply: httpx.Response) -> Seen:
    error = reply.json()["error"]
    assert error["code"] == reply.status_code
    assert error["message"]
    return Seen(reply.status_code, "refused", _code_of_status(error))


def _code_of_status(error: Json) -> str:
    reason: str = error["details"][0]["reason"]
    return reason.lower()


def _read_content_stream(wire: bytes) -> Seen:
    *chunks, end = read_chunks(wire)
    if "error" not in end:
        return _read_content(check_content_stream(wire))
    candidates = [chunk["candidates"][0] for chunk in chunks]
    assert not any("finishReason" in candidate for candidate in candidates), "a stream ends once"
    texts = [part.get("text", "") for candidate in candidates for part in candidate["content"]["parts"]]
    return Seen(200, "failed", _code_of_status(end["error"]), "".join(texts))


def _read_content(reply: Json) -> Seen:
    (candidate,) = check_content_reply(reply)["candidates"]
    parts, usage = candidate["content"]["parts"], reply["usageMetadata"]
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    return Seen(
        200,
        "completed" if candidate["finishReason"] == "STOP" else "incomplete",
        None,
        "".join(part.get("text", "") for part in parts if not part.get("thought")),
        "".join(part["text"] for part in parts if part.get("thought")),
        tuple((call["name"], json.dumps(call["args"])) for call in calls),
        (usage.get("promptTokenCount", 0), usage.get("candidatesTokenCount", 0)),
    )


_ERROR_READERS = {MESSAGES: _read_messages_error, GEMINI: _read_status}
_WIRE_READERS = {MESSAGES: _read_messages_stream, GEMINI: _read_content_stream}
_STREAM_READERS = {RESPONSES: _read_responses_stream, CHAT: _read_chat_stream}
_WHOLE_READERS = {RESPONSES: _read_response, CHAT: _read_completion, MESSAGES: _read_message, GEMINI: _read_content}
