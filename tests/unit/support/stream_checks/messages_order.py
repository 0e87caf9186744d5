"""An independent reading of the order of events in the Messages API, against which whatever claims to speak it is
checked: the specification written down a second time, and the official client's own types and accumulator."""

from typing import Any

import orjson
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

Json = dict[str, Any]

_EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)

# type of a delta -> types of the blocks that it extends
_BLOCKS_OF_DELTA = {
    "text_delta": {"text"},
    "citations_delta": {"text"},
    "thinking_delta": {"thinking"},
    "signature_delta": {"thinking"},
    "input_json_delta": {"tool_use", "server_tool_use"},
}


def read_frames(wire: bytes) -> list[Json]:
    """The events of a stream, whose frames must be exactly as the API writes them, without pings."""
    *frames, rest = wire.split(b"\n\n")
    assert rest == b"", "the stream ends inside a frame"
    events = []
    for frame in frames:
        name, payload = frame.split(b"\n")
        event = orjson.loads(payload.removeprefix(b"data: "))
        assert name == b"event: " + event["type"].encode()
        events.append(event)
    return [event for event in events if event["type"] != "ping"]


def check_message(message: Json) -> Message:
    """The official type, without any conversion."""
    return TypeAdapter(Message).validate_python(message, strict=True)


def check_message_stream(wire: bytes) -> Json:
    """Checks frames, order and official types. Returns the message that the official client makes of the stream."""
    events = read_frames(wire)
    blocks: list[Json] = []
    open_index: int | None = None
    snapshot: Any = None
    buffers: dict[int, bytes] = {}
    assert [event["type"] for event in events[-2:]] == ["message_delta", "message_stop"]
    for position, event in enumerate(events):
        parsed = _EVENT.validate_python(event, strict=True)
        assert (event["type"] == "message_start") == (position == 0)
        match event:
            case {"type": "content_block_start", "index": index, "content_block": block}:
                assert open_index is None, "a block begins while another is open"
                assert index == len(blocks)
                assert not block.get("text")
                assert not block.get("input")
                blocks.append(block)
                open_index = index
            case {"type": "content_block_delta", "index": index, "delta": delta}:
                assert index == open_index
                assert blocks[index]["type"] in _BLOCKS_OF_DELTA[delta["type"]]
            case {"type": "content_block_stop", "index": index}:
                assert index == open_index
                open_index = None
            case {"type": "message_delta"}:
                assert open_index is None
                assert event["delta"]["stop_reason"]
        snapshot = accumulate_event(event=parsed, current_snapshot=snapshot, json_bufs=buffers)
    result: Json = orjson.loads(snapshot.to_json())
    check_message({key: value for key, value in result.items() if key != "parsed_output"})
    return result
