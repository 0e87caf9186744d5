"""Parses the events that clients send on a WebSocket, and encodes the events that they receive as message texts."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import orjson

from gateway.error_replies import build_openai_error_body, read_error_headers, resolve_error_reply
from translation.errors import InvalidRequest
from translation.framing.sse import DONE_PAYLOAD, FrameDecoder
from translation.representation.json_types import Json

Lane: TypeAlias = str | None
"""The `stream_id` of a turn; None is the lane of turns without one."""

_LANE_PATTERN = re.compile(r"[A-Za-z0-9_.-]{1,256}", re.ASCII)

_ENVELOPE_KEYS = ("type", "stream_id", "generate", "stream", "background", "resumable")
"""Keys of a create event that are not part of the request body, or have no effect on a WebSocket."""

_TRANSPORT_FIELDS = {"stream": True, "resumable": False}
"""Every response is sent as events, and none outlives its connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """A request for one turn: the body as for `POST /v1/responses`. `size` is the bytes of the client's message, and
    `weight` what it weighs (`dataplane/body_weight.py`)."""

    lane: Lane
    body: Json
    generate: bool
    size: int
    weight: int = 0


def parse_lane(event: Json) -> Lane:
    """Returns the lane of an event. Raises InvalidRequest if `stream_id` is invalid."""
    lane = event.get("stream_id")
    if lane is None or (isinstance(lane, str) and _LANE_PATTERN.fullmatch(lane)):
        return lane
    raise InvalidRequest(
        "stream_id must be 1 to 256 letters, digits, underscores, hyphens and periods",
        param="stream_id",
        code="invalid_stream_id",
    )


def parse_event_type(event: Json) -> str:
    """Returns the type of an event: `response.create` or `response.steer`. Raises InvalidRequest for any other."""
    kind = event.get("type")
    if kind is None:
        raise InvalidRequest("type is required", param="type", code="missing_required_parameter")
    if kind not in ("response.create", "response.steer"):
        raise InvalidRequest("type must be response.create or response.steer", param="type", code="invalid_value")
    return str(kind)


def parse_turn_request(event: Json, size: int, weight: int = 0) -> TurnRequest:
    """Parses a `response.create` event of `size` bytes. Raises InvalidRequest.

    The request body in it is validated when the turn runs.
    """
    generate = event.get("generate")
    if generate is not None and not isinstance(generate, bool):
        raise InvalidRequest("generate must be true or false", param="generate", code="invalid_type")
    for name in ("background", "resumable"):
        if event.get(name):
            raise InvalidRequest(
                f"{name} is not supported on WebSockets, where a response ends with its connection: use "
                "POST /v1/responses instead",
                param=name,
                code="unsupported_parameter",
            )
    body = {name: value for name, value in event.items() if name not in _ENVELOPE_KEYS} | _TRANSPORT_FIELDS
    return TurnRequest(lane=parse_lane(event), body=body, generate=generate is not False, size=size, weight=weight)


def encode_error(error: Exception, lane: Lane = None) -> str:
    """Encodes an error event for a failure outside of a response.

    It has the error object, the status and the error's headers that HTTP would have returned.
    """
    row = resolve_error_reply(error)
    error_object = {**build_openai_error_body(error)["error"], "code": row.code or row.type}
    if headers := read_error_headers(error):
        error_object["headers"] = headers
    return _encode_event({"type": "error", "status": row.status, "error": error_object}, lane)


def encode_steer_failure(event: Json) -> str:
    """Encodes the API's reply to `response.steer` if steering is not supported. It includes the client's input.

    Raises InvalidRequest if the event lacks `previous_response_id` or `input`.
    """
    steer = {name: event.get(name) for name in ("previous_response_id", "input")}
    if not isinstance(steer["previous_response_id"], str) or not isinstance(steer["input"], str | list):
        raise InvalidRequest(
            "response.steer must have a previous_response_id (text) and an input (text or a list)",
            param="input" if isinstance(steer["previous_response_id"], str) else "previous_response_id",
            code="invalid_type",
        )
    error = {
        "type": "invalid_request_error",
        "code": "steering_not_supported",
        "message": "this server cannot steer a response: send the input with the next response.create",
    }
    return _encode_event({"type": "response.steer.failed", "sequence_number": 0, "error": error, "steer": steer}, None)


def _encode_event(event: Json, lane: Lane) -> str:
    return orjson.dumps(event if lane is None else {**event, "stream_id": lane}).decode()


def render_messages(frames: bytes, lane: Lane = None) -> Iterator[str]:
    """Yields the event of each frame as a message text, with `stream_id` if the lane has one.

    `frames` contains complete server-sent events. The final `[DONE]` is skipped.
    """
    lane_suffix = b"" if lane is None else b',"stream_id":' + orjson.dumps(lane) + b"}"
    for frame in frames.split(b"\n\n"):
        name, _, payload = frame.partition(b"\ndata: ")
        if b"\n" in payload or not name.startswith(b"event: ") or b"\n" in name:
            # Relayed frames can use everything that the format allows, so they need the full decoder.
            payload = b"".join(decoded.payload for decoded in FrameDecoder(is_own=True).feed(frame + b"\n\n"))
        if not payload or payload == DONE_PAYLOAD:
            continue
        if lane_suffix:
            payload = payload.rstrip().removesuffix(b"}") + lane_suffix
        yield payload.decode()


def add_headers(message: str, headers: Mapping[str, str]) -> str:
    """Returns the event with `headers`, which has the values that HTTP would return as reply headers."""
    return _encode_event({**orjson.loads(message), "headers": dict(headers)}, None)
