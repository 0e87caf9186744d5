"""Encodes events as a stream of the Responses API."""

from itertools import groupby, pairwise
from typing import Any, get_args

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.support.event_grammar import EventGrammar
from tests.unit.support.responses_streams import LOGPROB, STREAMS, message
from tests.unit.support.stream_checks.responses_order import accumulate, check_order, check_types, read_stream
from tests.unit.support.translator_drivers import feed_to_end
from translation.representation import items
from translation.representation.events import (
    Delta,
    Event,
    Failed,
    Finished,
    ItemEnded,
    ItemStarted,
    Noted,
    PartEnded,
    PartStarted,
    Started,
)
from translation.responses.client.encode import _EVENT_WRITERS, ResponsesEncoder
from translation.responses.client.initial_response import new_response
from translation.responses.client.snapshot import Snapshot

Json = dict[str, Any]

HEAD = new_response({"model": "m", "input": "hi"}, response_id="resp_1", created_at=100, model="m")


def encoder() -> ResponsesEncoder:
    return ResponsesEncoder(HEAD, lambda: 105)


def encode(*events: Event) -> list[Json]:
    return read_stream(feed_to_end(encoder(), events))


def of_type(events: list[Json], event_type: str) -> list[Json]:
    return [event for event in events if event["type"] == event_type]


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
def test_the_source_obeys_the_grammar(stream: Any) -> None:
    grammar = EventGrammar()
    grammar.check(stream.events)
    grammar.finish()


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
def test_every_stream_has_the_events_of_the_api_in_its_order(stream: Any) -> None:
    events = encode(*stream.events)
    check_order(events)
    middle = [event["type"].removeprefix("response.") for event in events[2:-1]]
    assert [run for run, _ in groupby(middle)] == stream.types.split()
    assert events[-1]["type"] == f"response.{stream.end}"


@pytest.mark.parametrize("name", [name for name, stream in STREAMS.items() if stream.official])
def test_every_event_is_one_the_official_client_accepts(name: str) -> None:
    events = encode(*STREAMS[name].events)
    check_types(events)
    whole = accumulate(events)
    if STREAMS[name].end == "completed":
        assert [item.id for item in whole.output] == [item["id"] for item in events[-1]["response"]["output"]]


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
def test_the_last_event_equals_the_streamed_and_the_collected_response(stream: Any) -> None:
    encoding, snapshot = encoder(), Snapshot(HEAD, lambda: 105)
    events = read_stream(feed_to_end(encoding, stream.events))
    snapshot.feed(stream.events)
    assert encoding.ended
    assert events[-1]["response"] == encoding.response == snapshot.result()


@given(st.sampled_from(list(STREAMS)), st.lists(st.integers(0, 20)).map(sorted))
def test_how_events_are_batched_does_not_matter(name: str, cuts: list[int]) -> None:
    events = STREAMS[name].events
    encoding = encoder()
    edges = [0, *[cut for cut in cuts if cut <= len(events)], len(events)]
    batches = [events[start:end] for start, end in pairwise(edges)]
    assert feed_to_end(encoding, *batches) == feed_to_end(encoder(), events)


@given(st.lists(st.text()))
def test_text_arrives_unchanged(texts: list[str]) -> None:
    events = encode(Started("up"), *message(0, *texts), Finished("stop"))
    assert [event["delta"] for event in of_type(events, "response.output_text.delta")] == texts
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "".join(texts)


def test_nothing_is_sent_for_an_empty_batch() -> None:
    assert encoder().feed([]) == b""


def test_a_response_has_not_ended_before_its_terminal_event() -> None:
    encoding = encoder()
    frames = encoding.feed([Started("up"), *message(0, "a")])
    assert not encoding.ended
    assert b"[DONE]" not in frames
    assert encoding.conclude() == b""
    assert feed_to_end(encoding, [Finished("stop")]).endswith(b"data: [DONE]\n\n")


def test_a_delta_is_written_as_the_api_writes_it() -> None:
    wire = encoder().feed([Started("up"), *message(0, "a"), Finished("stop")])
    assert (
        b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":4,'
        b'"item_id":"msg_1","output_index":0,"content_index":0,"delta":"a","logprobs":[]}\n\n'
    ) in wire


def test_logprobs_are_on_their_delta_and_all_together_at_the_end() -> None:
    events = encode(*STREAMS["text with logprobs"].events)
    deltas = of_type(events, "response.output_text.delta")
    assert [delta["logprobs"] for delta in deltas] == [[LOGPROB], []]
    assert deltas[0]["delta"] == 'x"logprobs":[]}'
    assert of_type(events, "response.output_text.done")[0]["logprobs"] == [LOGPROB]
    assert events[-1]["response"]["output"][0]["content"][0]["logprobs"] == [LOGPROB]


def test_citations_are_numbered_within_their_part() -> None:
    events = encode(*STREAMS["text with a citation"].events)
    added = of_type(events, "response.output_text.annotation.added")
    assert [event["annotation_index"] for event in added] == [0, 1]
    assert len(events[-1]["response"]["output"][0]["content"][0]["annotations"]) == 2


def test_the_arguments_are_done_under_the_name_of_the_function() -> None:
    done = of_type(encode(*STREAMS["calls may interleave"].events), "response.function_call_arguments.done")
    assert [(event["name"], event["arguments"]) for event in done] == [("f", "[]"), ("g", "{}")]


@pytest.mark.parametrize(
    ("name", "deltas"),
    {
        "a call without arguments gets an empty object": ["{}"],
        "a call without deltas is streamed all the same": ['{"a":1}'],
        "a call whose end has more than its deltas": ['{"a":1}'],
        "a call cut off before its arguments gets none": [],
    }.items(),
)
def test_deltas_add_up_to_the_arguments(name: str, deltas: list[str]) -> None:
    events = encode(*STREAMS[name].events)
    assert [event["delta"] for event in of_type(events, "response.function_call_arguments.delta")] == deltas
    assert events[-1]["response"]["output"][0]["arguments"] == "".join(deltas)


def test_a_part_that_begins_with_text_is_announced_without_it() -> None:
    events = encode(
        Started("up"),
        ItemStarted(0, items.new_message("msg_1")),
        PartStarted(0, 0, {**items.new_output_text(), "text": "Hel"}),
        Delta(0, 0, "lo"),
        PartEnded(0, 0),
        ItemEnded(0),
        Finished("stop"),
    )
    assert of_type(events, "response.content_part.added")[0]["part"]["text"] == ""
    assert [event["delta"] for event in of_type(events, "response.output_text.delta")] == ["Hel", "lo"]
    assert of_type(events, "response.output_text.done")[0]["text"] == "Hello"


def test_a_final_text_of_the_upstream_replaces_its_deltas() -> None:
    events = encode(
        Started("up"),
        ItemStarted(0, items.new_message("msg_1")),
        PartStarted(0, 0, items.new_output_text()),
        Delta(0, 0, "Helo"),
        PartEnded(0, 0, {**items.new_output_text(), "text": "Hello"}),
        ItemEnded(0),
        Finished("stop"),
    )
    assert [event["delta"] for event in of_type(events, "response.output_text.delta")] == ["Helo"]
    assert of_type(events, "response.output_text.done")[0]["text"] == "Hello"
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "Hello"


def test_events_of_the_same_dialect_are_forwarded_under_our_numbers_and_ids() -> None:
    events = encode(*STREAMS["events without a meaning here"].events)
    assert of_type(events, "response.strange") == [{"type": "response.strange", "sequence_number": 2, "more": 1}]
    assert of_type(events, "response.odd") == [
        {"type": "response.odd", "sequence_number": 4, "item_id": "msg_1", "output_index": 0}
    ]
    assert of_type(events, "response.bare") == [{"type": "response.bare", "sequence_number": 5}]


def test_every_event_except_deltas_is_encoded_by_the_table() -> None:
    assert set(get_args(Event)) - _EVENT_WRITERS.keys() == {Delta}


def test_the_head_is_not_changed() -> None:
    before = orjson.dumps(HEAD)
    encode(Started("up", response={"billing": {}}), Noted(facts={"service_tier": "flex"}), Finished("stop"))
    assert orjson.dumps(HEAD) == before


def test_an_unsent_terminal_event_can_still_become_a_failure() -> None:
    encoding = encoder()
    frames = encoding.feed([Started("up"), *message(0, "a"), Finished("length")])
    assert encoding.ended
    assert encoding.failed is None
    events = read_stream(frames + feed_to_end(encoding, [Failed("store_unavailable", "not kept")]))
    assert encoding.failed == Failed("store_unavailable", "not kept")
    check_order(events)
    assert [event["sequence_number"] for event in events] == list(range(len(frames.split(b"\n\n"))))
    response = events[-1]["response"]
    assert response == encoding.response
    assert (response["status"], response["completed_at"], response["incomplete_details"]) == ("failed", None, None)
    assert response["output"][0]["content"][0]["text"] == "a"
