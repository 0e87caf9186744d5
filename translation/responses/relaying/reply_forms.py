"""Turns a whole response into a stream, for upstreams that reply with JSON although a stream was requested."""

from translation.representation.items import NewId
from translation.representation.json_types import Json
from translation.representation.profile import DEFAULT_PROFILE
from translation.responses.client.encode import ResponsesEncoder
from translation.responses.upstream.decode import ResponsesDecoder

_UNFINISHED_FIELDS: Json = {
    "status": "in_progress",
    "output": [],
    "usage": None,
    "error": None,
    "incomplete_details": None,
}
"""Fields of a response that has no output yet."""


def build_response_stream(response: Json, new_id: NewId) -> bytes:
    """Returns the frames of a stream that produces `response` and ends with it.

    Raises ProtocolViolation if `response` is not a response object.
    """
    events = ResponsesDecoder(new_id, DEFAULT_PROFILE).feed(response)
    completed_at: int = response.get("completed_at") or response.get("created_at") or 0
    encoder = ResponsesEncoder({**response, **_UNFINISHED_FIELDS}, clock=lambda: completed_at)
    return encoder.feed(events) + encoder.conclude()
