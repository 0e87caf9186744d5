"""Events of WebSocket clients are parsed, and the replies are the events of a stream without its frames."""

import json
from typing import Any

import pytest

from gateway.errors import NotJson, ShuttingDown
from gateway.websocket.events import (
    add_headers,
    encode_error,
    encode_steer_failure,
    parse_event_type,
    parse_lane,
    parse_turn_request,
    render_messages,
)
from translation.errors import InvalidRequest
from translation.framing.sse import DONE_FRAME, KEEP_ALIVE_COMMENT, encode_event


def test_the_body_of_a_create_event_is_that_of_a_request_for_a_stream() -> None:
    event = {"type": "response.create", "model": "m", "input": "Hi", "store": False, "stream_id": "a", "stream": False}
    create = parse_turn_request(event, 12)
    assert create.body == {"model": "m", "input": "Hi", "store": False, "stream": True, "resumable": False}
    assert (create.lane, create.generate, create.size) == ("a", True, 12)


@pytest.mark.parametrize(("generate", "expected"), [(None, True), (True, True), (False, False)])
def test_output_is_generated_by_default(generate: bool | None, expected: bool) -> None:
    assert parse_turn_request({"generate": generate}, 1).generate is expected


def test_whether_to_generate_is_true_or_false() -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_turn_request({"generate": "no"}, 1)
    assert (refused.value.param, refused.value.code) == ("generate", "invalid_type")


@pytest.mark.parametrize("name", ["background", "resumable"])
def test_background_parameters_are_refused_by_name(name: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_turn_request({name: True}, 1)
    assert (refused.value.param, refused.value.code) == (name, "unsupported_parameter")
    assert parse_turn_request({name: False}, 1).body == {"stream": True, "resumable": False}


@pytest.mark.parametrize("lane", ["", "a b", "größe", "x" * 257, 1, ["a"], "a\n"])
def test_a_lane_has_a_plain_name(lane: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_lane({"stream_id": lane})
    assert (refused.value.param, refused.value.code) == ("stream_id", "invalid_stream_id")


@pytest.mark.parametrize("lane", [None, "a", "x" * 256, "Agent_1.b-c"])
def test_a_plain_name_is_a_lane(lane: str | None) -> None:
    assert parse_lane({"stream_id": lane}) == lane


@pytest.mark.parametrize("kind", ["response.cancel", 1, {}, None])
def test_unknown_events_are_refused(kind: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_event_type({"type": kind})
    assert refused.value.param == "type"


def test_steering_is_refused_as_the_api_refuses_it() -> None:
    steer = {"type": "response.steer", "previous_response_id": "resp_1", "input": "Louder"}
    event = json.loads(encode_steer_failure(steer))
    assert event["type"] == "response.steer.failed"
    assert event["error"]["code"] == "steering_not_supported"
    assert event["steer"] == {"previous_response_id": "resp_1", "input": "Louder"}


@pytest.mark.parametrize(
    ("steer", "param"),
    [({"input": "a"}, "previous_response_id"), ({"previous_response_id": "r"}, "input")],
)
def test_malformed_steering_is_refused_by_field(steer: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        encode_steer_failure(steer)
    assert refused.value.param == param


def test_an_error_has_the_status_the_message_and_the_headers_of_http() -> None:
    assert json.loads(encode_error(ShuttingDown(), "a")) == {
        "type": "error",
        "status": 503,
        "error": {
            "type": "server_error",
            "code": "server_shutting_down",
            "message": "the server is shutting down; send the request again",
            "param": None,
            "headers": {"retry-after": "1"},
        },
        "stream_id": "a",
    }


def test_an_error_outside_of_lanes_names_none_and_always_has_a_code() -> None:
    event = json.loads(encode_error(NotJson("the body is empty"), None))
    assert "stream_id" not in event
    assert event["error"]["code"] == "invalid_request_error"


def test_messages_are_the_payloads_of_the_frames() -> None:
    frames = (
        encode_event("a", b'{"type":"a"}')
        + KEEP_ALIVE_COMMENT
        + encode_event("b", b'{"type":"b","text":"data: x"}')
        + DONE_FRAME
    )
    assert list(render_messages(frames)) == ['{"type":"a"}', '{"type":"b","text":"data: x"}']


@pytest.mark.parametrize(
    "frame",
    [
        b'data: {"type":"a"}\n\n',
        b'id: 7\nevent: a\ndata: {"type":"a"}\n\n',
        b'event: a\ndata:{"type":"a"}\n\n',
        b'event: a\ndata: {"type":"a"}\nretry: 5\n\n',
    ],
)
def test_relayed_frames_of_any_form_are_read(frame: bytes) -> None:
    assert [json.loads(message) for message in render_messages(frame)] == [{"type": "a"}]


def test_a_payload_of_several_lines_stays_one_event() -> None:
    (message,) = render_messages(b'data: {"type":\ndata: "a"}\n\n')
    assert json.loads(message) == {"type": "a"}


def test_every_event_names_its_lane() -> None:
    frames = encode_event("a", b'{"type":"a"}') + encode_event("b", b'{"type":"b"} ')
    assert [json.loads(message)["stream_id"] for message in render_messages(frames, "x")] == ["x", "x"]


def test_losses_are_in_the_first_event() -> None:
    told = json.loads(add_headers('{"type":"a","stream_id":"x"}', {"x-gateway-loss": "user=dropped"}))
    assert told == {"type": "a", "stream_id": "x", "headers": {"x-gateway-loss": "user=dropped"}}
