"""The requests of the load generator."""

import json
from dataclasses import asdict
from itertools import pairwise

import orjson
import pytest

from bench.load.replies import parse_response_id
from bench.load.requests import HistoryShape, LoadSpec, build_replay_request, build_request
from translation.responses.client.lift import lift

HISTORY = HistoryShape(items=200, images=10, image_bytes=480_000)


def spec(path: str = "/v1/responses", **fields) -> LoadSpec:
    return LoadSpec(8080, path, "bench-4", stream=True, connections=1, seconds=1, **fields)


def body_of(content: bytes) -> dict:
    head, _, body = content.partition(b"\r\n\r\n")
    assert f"content-length: {len(body)}".encode() in head
    return orjson.loads(body)


def test_a_spec_reads_itself() -> None:
    given = spec(history=HISTORY, fields={"store": True}, resume=True)
    assert LoadSpec.read(json.dumps(asdict(given))) == given


def test_a_request_is_built_in_either_dialect() -> None:
    assert body_of(build_request(spec(), "bench-4"))["input"] == "Say the tokens."
    chat = body_of(build_request(spec("/v1/chat/completions"), "bench-4"))
    assert chat["messages"] == [{"role": "user", "content": "Say the tokens."}]


def test_a_history_has_the_requested_number_of_items() -> None:
    content = build_request(spec(history=HISTORY), "bench-4")
    turn = lift(body_of(content))
    assert len(turn.items) == HISTORY.items + 1
    assert len(content) == pytest.approx(5_000_000, rel=0.1)


def test_images_are_spread_and_all_different() -> None:
    items = body_of(build_request(spec(history=HISTORY), "bench-4"))["input"]
    places = [at for at, item in enumerate(items) if "input_image" in str(item)[:1000]]
    assert len(places) == HISTORY.images
    assert {after - before for before, after in pairwise(places)} == {20}
    assert len({items[at]["content"][1]["image_url"] for at in places}) == HISTORY.images


def test_every_call_of_a_history_has_its_output() -> None:
    items = body_of(build_request(spec(history=HistoryShape(items=8)), "bench-4"))["input"]
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    assert calls == [item["call_id"] for item in items if item.get("type") == "function_call_output"] != []


def test_a_replay_requests_the_stored_stream() -> None:
    assert build_replay_request(spec(), "resp_1").startswith(
        b"GET /v1/responses/resp_1?stream=true&starting_after=0 HTTP/1.1\r\n"
    )


def test_the_id_of_a_stream_is_that_of_its_response() -> None:
    assert parse_response_id(b'data: {"item":{"id":"msg_9"},"response": {"id": "resp_1"}}') == "resp_1"
    with pytest.raises(ValueError, match="no id"):
        parse_response_id(b"data: {}")
