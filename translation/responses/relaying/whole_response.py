"""A response as the stream it could have been, for upstreams that answer whole where a stream was asked for."""

from translation.representation.items import NewId
from translation.representation.json_types import Json
from translation.representation.profile import DEFAULT_PROFILE
from translation.responses.decode import ResponsesDecoder
from translation.responses.encode import ResponsesEncoder

_UNFINISHED_FIELDS: Json = {
    "status": "in_progress",
    "output": [],
    "usage": None,
    "error": None,
    "incomplete_details": None,
}
"""What a response says of itself before there is an answer."""


def stream_of(response: Json, new_id: NewId) -> bytes:
    """The events of a whole response, ending in the response as it came. Raises ProtocolViolation when it is none."""
    events = ResponsesDecoder(new_id, DEFAULT_PROFILE).feed(response)
    completed_at: int = response.get("completed_at") or response.get("created_at") or 0
    encoder = ResponsesEncoder({**response, **_UNFINISHED_FIELDS}, clock=lambda: completed_at)
    return encoder.feed(events) + encoder.conclude()
