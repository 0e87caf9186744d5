"""A stream of a Responses upstream, and what a client gets of it."""

from typing import Any

import orjson

from tests.unit.support.stream_checks.responses_order import read_stream
from tests.unit.support.translator_drivers import relay_to_end
from translation.framing import sse
from translation.representation.json_types import Json
from translation.responses.client.initial_response import new_response
from translation.responses.relaying.relay import ResponsesRelay
from translation.responses.relaying.whole_response import OwnResponse

HEAD = new_response({"model": "up", "input": "hi"}, response_id="resp_up", created_at=100, model="up")
OURS = new_response({"model": "m", "input": "hi"}, response_id="resp_ours", created_at=200, model="m")
ITEM = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
USAGE = {
    "input_tokens": 3,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 2,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 5,
}


def frame(event_type: str, number: int, **keys: Any) -> bytes:
    return sse.encode_event(event_type, orjson.dumps({"type": event_type, "sequence_number": number, **keys}))


def ending(status: str, number: int = 4, **keys: Any) -> bytes:
    return frame(f"response.{status}", number, response={**HEAD, "status": status, **keys})


CREATED = frame("response.created", 0, response=HEAD) + frame("response.in_progress", 1, response=HEAD)
CONTENT = frame("response.output_item.added", 2, output_index=0, item=ITEM) + frame("response.strange", 3, ünknown="ß")
END = ending("completed", usage=USAGE)
WIRE = CREATED + CONTENT + END + sse.DONE_FRAME


def relay(*, model: str | None = "m") -> ResponsesRelay:
    return ResponsesRelay(OwnResponse(model, OURS), max_frame_bytes=100_000)


def relayed(*reads: bytes, model: str | None = "m") -> list[Json]:
    """The events of a whole stream; its frames are checked."""
    stream = relay(model=model)
    return read_stream(relay_to_end(stream, *reads))
