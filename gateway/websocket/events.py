"""What travels on a connection: what clients say, taken apart, and what they are told, as the text of one message."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import orjson

from gateway import errors
from translation.errors import InvalidRequest
from translation.framing.sse import DONE_PAYLOAD, FrameDecoder
from translation.representation.json_types import Json

Lane: TypeAlias = str | None
"""The `stream_id` of a turn; None is the lane of turns without one."""

_LANE_PATTERN = re.compile(r"[A-Za-z0-9_.-]{1,256}", re.ASCII)

_ENVELOPE_KEYS = ("type", "stream_id", "generate", "stream", "background", "resumable")
"""What a create event says beyond the body of a request, and what is of no use here."""

_TRANSPORT_FIELDS = {"stream": True, "resumable": False}
"""Every response is told as events, and none outlives its connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """One turn asked for: the body as `POST /v1/responses` takes it, and how many bytes it came in."""

    lane: Lane
    body: Json
    generate: bool
    size: int


def parse_lane(event: Json) -> Lane:
    """The lane an event names. Raises InvalidRequest."""
    lane = event.get("stream_id")
    if lane is None or (isinstance(lane, str) and _LANE_PATTERN.fullmatch(lane)):
        return lane
    raise InvalidRequest(
        "stream_id is 1 to 256 letters, digits, underscores, hyphens and periods",
        param="stream_id",
        code="invalid_stream_id",
    )


def parse_event_type(event: Json) -> str:
    """`response.create` or `response.steer`. Raises InvalidRequest for all others."""
    kind = event.get("type")
    if kind is None:
        raise InvalidRequest("type is required", param="type", code="missing_required_parameter")
    if kind not in ("response.create", "response.steer"):
        raise InvalidRequest(
            "the events of a client are response.create and response.steer", param="type", code="invalid_value"
        )
    return str(kind)


def parse_turn_request(event: Json, size: int) -> TurnRequest:
    """A `response.create` event. Raises InvalidRequest; the body itself is checked when its turn comes."""
    generate = event.get("generate")
    if generate is not None and not isinstance(generate, bool):
        raise InvalidRequest("generate is either true or false", param="generate", code="invalid_type")
    for name in ("background", "resumable"):
        if event.get(name):
            raise InvalidRequest(
                f"{name} is not for WebSockets, where a response ends with its connection: send POST /v1/responses",
                param=name,
                code="unsupported_parameter",
            )
    body = {name: value for name, value in event.items() if name not in _ENVELOPE_KEYS} | _TRANSPORT_FIELDS
    return TurnRequest(lane=parse_lane(event), body=body, generate=generate is not False, size=size)


def encode_error(error: Exception, lane: Lane = None) -> str:
    """A failure that is no response's: what HTTP would have answered, its status and helpful headers included."""
    row = errors.resolve_error_reply(error)
    error_object = {**errors.error_body(error)["error"], "code": row.code or row.type}
    if headers := errors.error_headers(error):
        error_object["headers"] = headers
    return _encode_event({"type": "error", "status": row.status, "error": error_object}, lane)


def encode_steer_failure(event: Json) -> str:
    """The API's own answer where steering is not supported. What was to be said comes back with it."""
    steer = {name: event.get(name) for name in ("previous_response_id", "input")}
    if not isinstance(steer["previous_response_id"], str) or not isinstance(steer["input"], str | list):
        raise InvalidRequest(
            "response.steer has a previous_response_id and an input",
            param="input" if isinstance(steer["previous_response_id"], str) else "previous_response_id",
            code="invalid_type",
        )
    error = {
        "type": "invalid_request_error",
        "code": "steering_not_supported",
        "message": "a response cannot be steered here: send its input with the next response.create",
    }
    return _encode_event({"type": "response.steer.failed", "sequence_number": 0, "error": error, "steer": steer}, None)


def _encode_event(event: Json, lane: Lane) -> str:
    return orjson.dumps(event if lane is None else {**event, "stream_id": lane}).decode()


def messages_from_frames(frames: bytes, lane: Lane = None) -> Iterator[str]:
    """The events of whole frames, without the stream's last word, each with the lane it belongs to."""
    lane_suffix = b"" if lane is None else b',"stream_id":' + orjson.dumps(lane) + b"}"
    for frame in frames.split(b"\n\n"):
        name, _, payload = frame.partition(b"\ndata: ")
        if b"\n" in payload or not name.startswith(b"event: ") or b"\n" in name:
            # Relayed frames can be anything the format allows.
            payload = b"".join(found.payload for found in FrameDecoder().feed(frame + b"\n\n"))
        if not payload or payload == DONE_PAYLOAD:
            continue
        if lane_suffix:
            payload = payload.rstrip().removesuffix(b"}") + lane_suffix
        yield payload.decode()


def add_headers(message: str, headers: Mapping[str, str]) -> str:
    """An event that also says what HTTP says in the headers of its answer."""
    return _encode_event({**orjson.loads(message), "headers": dict(headers)}, None)
