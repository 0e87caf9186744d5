"""Converts a message between stream and whole reply, for upstreams that reply in the form that was not requested."""

import sys
from typing import Any, Final

import orjson

from translation.errors import ProtocolViolation
from translation.framing import sse
from translation.messages.client.reply_objects import split_block
from translation.messages.relaying.calls import relay_message
from translation.messages.upstream.decode import DELTA_KEYS, NOT_OPEN, is_blank_delta, is_own_delta
from translation.representation.json_types import Json
from translation.tools.arguments import parse_past_arguments

_PARTIAL_INPUT: Final = "partial_json"

_UNKNOWN_FORM: Final = "the upstream's reply is not a message of the Messages API"


def build_message_stream(message: Json) -> bytes:
    """Returns a whole message as a stream. An error becomes the event `error`.

    A message may have no content, and thinking no signature. Raises ProtocolViolation for one that is malformed.
    """
    if message.get("type") == "error":
        return _encode(message)
    try:
        return _split_message(relay_message(message, None))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ProtocolViolation(_UNKNOWN_FORM) from error


def _split_message(message: Json) -> bytes:
    head = {key: value for key, value in message.items() if key != "stop_details"}
    head |= {"content": [], "stop_reason": None, "stop_sequence": None}
    frames = [_encode({"type": "message_start", "message": head})]
    content = message.get("content")
    for index, block in enumerate(() if content is None else content):
        start, deltas = split_block(block)
        frames.append(_encode({"type": "content_block_start", "index": index, "content_block": start}))
        frames += [_encode({"type": "content_block_delta", "index": index, "delta": delta}) for delta in deltas]
        frames.append(_encode({"type": "content_block_stop", "index": index}))
    delta = {key: message.get(key) for key in ("stop_reason", "stop_sequence")}
    if message.get("stop_details") is not None:
        delta["stop_details"] = message["stop_details"]
    frames.append(_encode({"type": "message_delta", "delta": delta, "usage": message["usage"]}))
    return b"".join([*frames, _encode({"type": "message_stop"})])


def build_message(frames: bytes) -> Json:
    """Returns a stream that ended without an error as a whole message.

    Raises ProtocolViolation for events that do not add up to a message.
    """
    decoder = sse.FrameDecoder(is_own=True)
    stream = _MessageStream()
    try:
        for frame in [*decoder.feed(frames), *decoder.finish()]:
            stream.add_event(orjson.loads(frame.payload))
        return stream.build_message()
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ProtocolViolation("the upstream sent an event that the Messages API does not know") from error


class _MessageStream:
    """The message of a stream, as far as it has come.

    The methods raise ProtocolViolation, AttributeError, KeyError, TypeError or ValueError for a malformed stream.
    """

    def __init__(self) -> None:
        self._message: Json | None = None
        self._blocks: dict[int, Json] = {}
        """The blocks by the index that their events have, in the order of their start."""
        self._texts: dict[int, dict[str, list[str]]] = {}
        """The pieces of each block's texts, by the block's key for the text."""

    def add_event(self, event: Json) -> None:
        match event["type"]:
            case "message_start":
                if self._message is not None:
                    raise ProtocolViolation("the upstream began a second message in the same reply")
                self._message = {**event["message"]}
            case "content_block_start":
                index, block = event["index"], event["content_block"]
                if index in self._blocks:
                    raise ProtocolViolation("the upstream began two blocks with the same index")
                self._blocks[index], self._texts[index] = {"type": block["type"], **block}, {}
            case "content_block_delta":
                index, delta = event["index"], event["delta"]
                if index in self._blocks:
                    _add_delta(self._blocks[index], self._texts[index], delta)
                elif not is_blank_delta(delta):
                    raise ProtocolViolation(NOT_OPEN)
            case "message_delta":
                self._update_message(event)

    def build_message(self) -> Json:
        message = self._require_message()
        for index, pieces in self._texts.items():
            _complete_block(self._blocks[index], pieces)
        return {**message, "content": list(self._blocks.values())}

    def _update_message(self, event: Json) -> None:
        message = self._require_message()
        usage = {**(message.get("usage") or {}), **(event.get("usage") or {})}
        more = {key: value for key, value in event.items() if key not in ("type", "delta")}
        self._message = {**message, **more, **event["delta"], "usage": usage}

    def _require_message(self) -> Json:
        if self._message is None:
            raise ProtocolViolation("the upstream's reply does not begin with a message")
        return self._message


def _add_delta(block: Json, texts: dict[str, list[str]], delta: Any) -> None:
    if not is_own_delta(block["type"], delta):
        return
    if delta["type"] == "citations_delta":
        block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
    elif delta["type"] == "compaction_delta":  # a summary comes whole
        block |= {key: value for key, value in delta.items() if key != "type"}
    elif (key := DELTA_KEYS.get(delta["type"])) is not None:
        texts.setdefault(key, []).append(delta[key])


def _complete_block(block: Json, texts: dict[str, list[str]]) -> None:
    for key, pieces in texts.items():
        if key == _PARTIAL_INPUT:
            block["input"] = parse_past_arguments("".join(pieces), "", [], max_bytes=sys.maxsize)
        else:
            block[key] = (block.get(key) or "") + "".join(pieces)


def _encode(event: Json) -> bytes:
    return sse.encode_event(event["type"], orjson.dumps(event))
