"""A completion in the other of its two forms, for upstreams that answer in the one that was not asked for."""

from typing import Any

import orjson

from translation.framing import sse
from translation.representation.json_types import Json

_LISTED_PART_TYPES = ("text", "image_url")
"""The parts that `content_parts` may hold."""


def build_stored_message(message: Json) -> Json:
    """A request's message with an `id`. Content in parts is under `content_parts`, and its text in one piece under
    `content`; parts that a list cannot show are left out."""
    content = message.get("content")
    if not isinstance(content, list):
        return {**message, "content": content, "content_parts": None}
    texts = [part.get("text") or part.get("refusal") or "" for part in content if part["type"] in ("text", "refusal")]
    shown = [part for part in content if part["type"] in _LISTED_PART_TYPES]
    return {**message, "content": "".join(texts) if texts else None, "content_parts": shown}


_UNSPLIT_KEYS = frozenset({"id", "type", "role", "name", "index"})
"""Keys of a delta that are said once, or repeated, and never in pieces."""


def stream_of(completion: Json) -> bytes:
    """A whole answer as the stream it could have been: one chunk with every choice, one with the usage, `[DONE]`.

    What is no completion becomes a chunk all the same, which whoever reads the stream will refuse.
    """
    head = {key: value for key, value in completion.items() if key not in ("object", "choices", "usage")}
    head["object"] = "chat.completion.chunk"
    choices = completion.get("choices")
    chunks = [{**head, "choices": [_as_delta(choice) for choice in choices] if isinstance(choices, list) else choices}]
    if usage := completion.get("usage"):
        chunks.append({**head, "choices": [], "usage": usage})
    return b"".join(sse.encode_data(orjson.dumps(chunk)) for chunk in chunks) + sse.DONE_FRAME


def completion_of(frames: bytes) -> Json:
    """A stream that ended well as the answer it could have been. `frames` are whole LF frames of JSON objects."""
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
    return {"delta": delta, **{key: value for key, value in choice.items() if key != "message"}}


def _merge_delta(whole: Json, more: Json) -> None:
    """Add a delta up as the official SDKs do: texts and lists grow, objects merge, everything else is the latest."""
    for key, value in more.items():
        known = whole.get(key)
        if value is None:
            whole.setdefault(key, None)
        elif known is None:
            whole[key] = value
        elif isinstance(value, dict) and isinstance(known, dict):
            _merge_delta(known, value)
        elif isinstance(value, list) and isinstance(known, list):
            _merge_entries(known, value)
        elif isinstance(value, str) and isinstance(known, str) and key not in _UNSPLIT_KEYS:
            whole[key] = known + value
        else:
            whole[key] = value


def _merge_entries(known: list[Any], more: list[Any]) -> None:
    """Entries that say which one they are go on where they were."""
    for entry in more:
        index = entry.get("index") if isinstance(entry, dict) else None
        begun = None if index is None else next((one for one in known if one.get("index") == index), None)
        if begun is None:
            known.append(entry)
        else:
            _merge_delta(begun, entry)
