"""Converts a message between stream and whole reply, for upstreams that reply in the form that was not requested."""

import sys
from typing import Any, Final, cast

import orjson

from translation.framing import sse
from translation.messages.client.reply_objects import split_block
from translation.representation.json_types import Json
from translation.tools.arguments import parse_past_arguments

_DELTA_KEYS: Final = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}
"""Type of a delta -> its key, whose text is appended to the block."""

_PARTIAL_INPUT: Final = "partial_json"


def build_message_stream(message: Json) -> bytes:
    """Returns a whole message as a stream. An error becomes the event `error`."""
    if message.get("type") == "error":
        return _encode(message)
    head = {**message, "content": [], "stop_reason": None, "stop_sequence": None}
    frames = [_encode({"type": "message_start", "message": head})]
    for index, block in enumerate(message["content"]):
        start, deltas = split_block(block)
        frames.append(_encode({"type": "content_block_start", "index": index, "content_block": start}))
        frames += [_encode({"type": "content_block_delta", "index": index, "delta": delta}) for delta in deltas]
        frames.append(_encode({"type": "content_block_stop", "index": index}))
    delta = {key: message.get(key) for key in ("stop_reason", "stop_sequence")}
    frames.append(_encode({"type": "message_delta", "delta": delta, "usage": message.get("usage") or {}}))
    return b"".join([*frames, _encode({"type": "message_stop"})])


def build_message(frames: bytes) -> Json:
    """Returns a stream that ended without an error as a whole message."""
    decoder = sse.FrameDecoder()
    message: Json = {}
    texts: dict[int, dict[str, list[str]]] = {}
    for frame in [*decoder.feed(frames), *decoder.finish()]:
        match orjson.loads(frame.payload):
            case {"type": "message_start", "message": dict(head)}:
                message = {**head, "content": []}
            case {"type": "content_block_start", "content_block": block}:
                texts[len(message["content"])] = {}
                message["content"].append(block)
            case {"type": "content_block_delta", "index": index, "delta": delta}:
                _add_delta(message["content"][index], texts[index], delta)
            case {"type": "message_delta", "delta": delta, **more}:
                usage: Any = more.get("usage") or {}
                message |= {**cast("Json", more), **delta, "usage": {**(message.get("usage") or {}), **usage}}
    for index, pieces in texts.items():
        _complete_block(message["content"][index], pieces)
    return message


def _add_delta(block: Json, texts: dict[str, list[str]], delta: Any) -> None:
    if delta["type"] == "citations_delta":
        block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
    elif delta["type"] == "compaction_delta":  # a summary comes whole
        block |= {key: value for key, value in delta.items() if key != "type"}
    elif (key := _DELTA_KEYS.get(delta["type"])) is not None:
        texts.setdefault(key, []).append(delta[key])


def _complete_block(block: Json, texts: dict[str, list[str]]) -> None:
    for key, pieces in texts.items():
        if key == _PARTIAL_INPUT:
            block["input"] = parse_past_arguments("".join(pieces), "", [], max_bytes=sys.maxsize)
        else:
            block[key] = (block.get(key) or "") + "".join(pieces)


def _encode(event: Json) -> bytes:
    return sse.encode_event(event["type"], orjson.dumps(event))
