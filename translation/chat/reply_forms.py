"""Converts a completion between stream and whole reply, for upstreams that reply in the form that was not requested."""

from typing import Any

import orjson

from translation.framing import sse
from translation.representation.json_types import Json

_UNSPLIT_KEYS = frozenset({"id", "type", "role", "name", "index"})
"""Keys of a delta whose values are whole and may be repeated. They are replaced, not appended."""


def build_completion_stream(completion: Json) -> bytes:
    """Returns a whole reply as a stream: one chunk with every choice, one with the usage, and `[DONE]`.

    A body that is not a completion also becomes a chunk. The decoder of the stream refuses it.
    """
    head = {key: value for key, value in completion.items() if key not in ("object", "choices", "usage")}
    head["object"] = "chat.completion.chunk"
    choices = completion.get("choices")
    chunks = [{**head, "choices": [_as_delta(choice) for choice in choices] if isinstance(choices, list) else choices}]
    if usage := completion.get("usage"):
        chunks.append({**head, "choices": [], "usage": usage})
    return b"".join(sse.encode_data(orjson.dumps(chunk)) for chunk in chunks) + sse.DONE_FRAME


def build_completion(frames: bytes) -> Json:
    """Returns a stream that ended without an error as a whole reply.

    `frames` are complete server-sent events with LF line ends, whose data are JSON objects.
    """
    completion: Json = {}
    choices: dict[int, Json] = {}
    for payload in sse.FrameDecoder(len(frames)).parse_payloads(frames):
        if payload == sse.DONE_PAYLOAD:
            continue
        chunk = orjson.loads(payload)
        for choice in chunk.pop("choices", None) or ():
            index = choice.get("index") or 0
            whole = choices.setdefault(index, {"index": index, "message": {"role": "assistant", "content": None}})
            _merge_delta(whole["message"], choice.pop("delta", None) or {})
            _merge_delta(whole, choice)
        completion |= {key: value for key, value in chunk.items() if value is not None}
    completion |= {"object": "chat.completion", "choices": [choices[index] for index in sorted(choices)]}
    for choice in completion["choices"]:
        for call in choice["message"].get("tool_calls") or ():
            call.pop("index", None)
    return completion


def _as_delta(choice: Any) -> Any:
    if not isinstance(choice, dict) or not isinstance(message := choice.get("message"), dict):
        return choice
    delta = {key: value for key, value in message.items() if value is not None}
    if calls := message.get("tool_calls"):
        delta["tool_calls"] = [{"index": index, **call} for index, call in enumerate(calls)]
    rest = {key: value for key, value in choice.items() if key != "message"}
    # A whole reply without a reason is complete. A stream without one would have broken off.
    rest["finish_reason"] = choice.get("finish_reason") or ("tool_calls" if calls else "stop")
    return {"delta": delta, **rest}


def _merge_delta(whole: Json, delta: Json) -> None:
    """Merges a delta into `whole` as the official SDKs do: texts and lists grow, objects merge, others replace."""
    for key, value in delta.items():
        current = whole.get(key)
        if value is None:
            whole.setdefault(key, None)
        elif current is None:
            whole[key] = value
        elif isinstance(value, dict) and isinstance(current, dict):
            _merge_delta(current, value)
        elif isinstance(value, list) and isinstance(current, list):
            _merge_entries(current, value)
        elif isinstance(value, str) and isinstance(current, str) and key not in _UNSPLIT_KEYS:
            whole[key] = current + value
        else:
            whole[key] = value


def _merge_entries(known: list[Any], entries: list[Any]) -> None:
    """Merges entries that have an `index` into the known entry with that index, and appends the others."""
    for entry in entries:
        index = entry.get("index") if isinstance(entry, dict) else None
        existing = None if index is None else next((other for other in known if other.get("index") == index), None)
        if existing is None:
            known.append(entry)
        else:
            _merge_delta(existing, entry)
