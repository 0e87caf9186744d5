"""Decodes reasoning, citations and odd input of chat upstreams."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.support.chat_chunks import call, calls, chunk, completion, text_chunk, thought
from tests.unit.support.golden import GOLDEN, check_events, chunks_of, recordings
from tests.unit.support.translator_drivers import collect, counting_ids, decode
from tests.unit.translation.chat.upstream.decode.decoded_texts import STARTED, STOP, texts
from translation.chat.upstream.decode import ChatDecoder, DecoderState
from translation.errors import ProtocolViolation
from translation.representation import items
from translation.representation.events import (
    Annotated,
    Delta,
    Failed,
    Finished,
    PartStarted,
)
from translation.representation.json_types import Item, Json
from translation.representation.profile import Profile

THINK = Profile(parsing_format="think_tags")
THINK_OPEN = Profile(parsing_format="think_tags", think_open=True)
LEADING = Profile(parsing_format="leading_think_tags")
LEADING_OPEN = Profile(parsing_format="leading_think_tags", think_open=True)


THINKING: dict[str, tuple[Profile, list[Json], list[tuple[str, str]]]] = {
    "think tags in text are reasoning": (
        THINK,
        [text_chunk("<thi"), text_chunk("nk>\nhm\n</think>\n\nye"), text_chunk("s")],
        [("reasoning", "hm"), ("message", "yes")],
    ),
    "think tags are text for a model that answers directly": (
        Profile(),
        [text_chunk("<think>hm</think>yes")],
        [("message", "<think>hm</think>yes")],
    ),
    "a template that opens the tag makes the reply start as reasoning": (
        THINK_OPEN,
        [text_chunk("hm</think>"), text_chunk("yes")],
        [("reasoning", "hm"), ("message", "yes")],
    ),
    "an upstream that takes reasoning out itself leaves only text": (
        THINK_OPEN,
        [thought("hm"), text_chunk("yes")],
        [("reasoning", "hm"), ("message", "yes")],
    ),
    "think tags at the beginning are reasoning, and those in the answer are text": (
        LEADING,
        [text_chunk("<thi"), text_chunk("nk>\nhm\n</think>\n\nye"), text_chunk("s"), text_chunk("<think>")],
        [("reasoning", "hm"), ("message", "yes<think>")],
    ),
    "text that does not begin with a think tag is the answer": (
        LEADING,
        [text_chunk(""), text_chunk("<b>yes</b>"), text_chunk("<think>hm")],
        [("message", "<b>yes</b><think>hm")],
    ),
    "an upstream that takes reasoning out itself leaves tags that are text": (
        LEADING,
        [thought("hm"), text_chunk("yes <think>")],
        [("reasoning", "hm"), ("message", "yes <think>")],
    ),
    "a template that is known to open the tag": (
        LEADING_OPEN,
        [text_chunk("hm</think>"), text_chunk("yes")],
        [("reasoning", "hm"), ("message", "yes")],
    ),
    "the beginning of a tag alone": (
        LEADING,
        [text_chunk("<th")],
        [("message", "<th")],
    ),
    "a tag that never ends is text": (
        THINK,
        [text_chunk("1 <th")],
        [("message", "1 <th")],
    ),
    "a tag that is never closed makes the rest reasoning": (
        THINK,
        [text_chunk("<think>hm"), text_chunk(" well")],
        [("reasoning", "hm well")],
    ),
}


@pytest.mark.parametrize(("profile", "chunks", "expected"), THINKING.values(), ids=THINKING)
def test_think_tags_follow_the_profile(profile: Profile, chunks: list[Json], expected: list[tuple[str, str]]) -> None:
    events = decode(ChatDecoder(counting_ids(), profile), [*chunks, chunk(finish="stop")])
    assert texts(events) == expected


def details(*blocks: Json, **more: Any) -> Json:
    return chunk({"reasoning_details": list(blocks), **more})


SIGNED = {"type": "reasoning.text", "text": "hm", "signature": "sig", "index": 0}
ENCRYPTED = {"type": "reasoning.encrypted", "data": "xyz", "index": 1}

YES = {**items.new_message("msg_1"), "content": [{**items.new_output_text(), "text": "yes!"}], "status": "completed"}

DETAILS: dict[str, tuple[list[Json], list[Item]]] = {
    "signed reasoning keeps its blocks, put together": (
        [
            details({"type": "reasoning.text", "text": "h", "signature": None, "index": 0}, reasoning="h"),
            details({"type": "reasoning.text", "text": "m", "index": 0}, reasoning="m"),
            details({"type": "reasoning.text", "signature": "sig", "index": 0}),
            chunk(finish="stop"),
        ],
        [
            {
                **items.new_reasoning("rs_1"),
                "content": [{"type": "reasoning_text", "text": "hm"}],
                "details": [SIGNED],
            }
        ],
    ),
    "unsigned reasoning is only its text": (
        [details({"type": "reasoning.text", "text": "hm", "index": 0}), chunk(finish="stop")],
        [{**items.new_reasoning("rs_1"), "content": [{"type": "reasoning_text", "text": "hm"}]}],
    ),
    "a summary is a summary": (
        [
            details({"type": "reasoning.summary", "summary": "in short", "index": 0}, reasoning="in short"),
            details(ENCRYPTED),
            chunk(finish="stop"),
        ],
        [
            {
                **items.new_reasoning("rs_1"),
                "summary": [{"type": "summary_text", "text": "in short"}],
                "content": [],
                "details": [{"type": "reasoning.summary", "summary": "in short", "index": 0}, ENCRYPTED],
            }
        ],
    ),
    "encrypted reasoning that comes with a call is an item before the call": (
        [
            chunk({"tool_calls": [call(0, id="a", name="f", arguments="{}")], "reasoning_details": [ENCRYPTED]}),
            chunk(finish="tool_calls"),
        ],
        [
            {**items.new_reasoning("rs_1"), "details": [ENCRYPTED]},
            {**items.new_function_call("fc_1", call_id="a", name="f"), "arguments": "{}", "status": "completed"},
        ],
    ),
    "encrypted reasoning without text is an item before the answer": (
        [details(ENCRYPTED), text_chunk("yes"), text_chunk("!"), chunk(finish="stop")],
        [{**items.new_reasoning("rs_1"), "details": [ENCRYPTED]}, YES],
    ),
    "encrypted reasoning that comes after the answer does not cut it": (
        [text_chunk("yes"), details(ENCRYPTED), text_chunk("!"), chunk(finish="stop")],
        [YES, {**items.new_reasoning("rs_1"), "details": [ENCRYPTED]}],
    ),
    "a signature that comes after the answer has begun is sent back with its text": (
        [
            details({"type": "reasoning.text", "text": "h", "index": 0}),
            details({"type": "reasoning.text", "text": "m", "signature": None, "index": 0}),
            text_chunk("yes"),
            details({"type": "reasoning.text", "signature": "sig", "index": 0}),
            text_chunk("!"),
            chunk(finish="stop"),
        ],
        [
            {**items.new_reasoning("rs_1"), "content": [{"type": "reasoning_text", "text": "hm"}]},
            YES,
            {**items.new_reasoning("rs_2"), "details": [SIGNED]},
        ],
    ),
    "a late signature beside an encrypted block has its text": (
        [
            details({"type": "reasoning.encrypted", "data": "xyz", "index": 0}),
            details({"type": "reasoning.text", "text": "hm", "index": 1}),
            text_chunk("yes!"),
            details({"type": "reasoning.text", "signature": "sig", "index": 1}),
            chunk(finish="stop"),
        ],
        [
            {
                **items.new_reasoning("rs_1"),
                "content": [{"type": "reasoning_text", "text": "hm"}],
                "details": [
                    {"type": "reasoning.encrypted", "data": "xyz", "index": 0},
                    {"type": "reasoning.text", "text": "hm", "index": 1},
                ],
            },
            YES,
            {**items.new_reasoning("rs_2"), "details": [{**SIGNED, "index": 1}]},
        ],
    ),
    "signatures that come after both blocks": (
        [
            details({"type": "reasoning.text", "text": "h", "index": 0}),
            details({"type": "reasoning.text", "text": "m", "index": 1}),
            details({"type": "reasoning.text", "signature": "a", "index": 0}),
            details({"type": "reasoning.text", "signature": "b", "index": 1}),
            chunk(finish="stop"),
        ],
        [
            {
                **items.new_reasoning("rs_1"),
                "content": [{"type": "reasoning_text", "text": "hm"}],
                "details": [
                    {"type": "reasoning.text", "text": "h", "signature": "a", "index": 0},
                    {"type": "reasoning.text", "text": "m", "signature": "b", "index": 1},
                ],
            }
        ],
    ),
    "text beside encrypted reasoning": (
        [
            details({"type": "reasoning.text", "text": "hm", "index": 0}),
            details({"type": "reasoning.encrypted", "data": "xyz", "index": 1}),
            chunk(finish="stop"),
        ],
        [
            {
                **items.new_reasoning("rs_1"),
                "content": [{"type": "reasoning_text", "text": "hm"}],
                "details": [{"type": "reasoning.text", "text": "hm", "index": 0}, ENCRYPTED],
            }
        ],
    ),
    "a late signature of a block whose text an encrypted one interrupted": (
        [
            details({"type": "reasoning.text", "text": "h", "index": 0}),
            details(ENCRYPTED),
            details({"type": "reasoning.text", "text": "m", "index": 0}),
            text_chunk("yes!"),
            details({"type": "reasoning.text", "signature": "sig", "index": 0}),
            chunk(finish="stop"),
        ],
        [
            {
                **items.new_reasoning("rs_1"),
                "content": [{"type": "reasoning_text", "text": "hm"}],
                "details": [
                    {"type": "reasoning.text", "text": "h", "index": 0},
                    ENCRYPTED,
                    {"type": "reasoning.text", "text": "m", "index": 0},
                ],
            },
            YES,
            {**items.new_reasoning("rs_2"), "details": [SIGNED]},
        ],
    ),
    "late signatures of two blocks have each its text": (
        [
            details({"type": "reasoning.text", "text": "h", "index": 0}),
            details({"type": "reasoning.text", "text": "m", "index": 1}),
            text_chunk("yes!"),
            details({"type": "reasoning.text", "signature": "a", "index": 0}),
            details({"type": "reasoning.text", "signature": "b", "index": 1}),
            chunk(finish="stop"),
        ],
        [
            {**items.new_reasoning("rs_1"), "content": [{"type": "reasoning_text", "text": "hm"}]},
            YES,
            {
                **items.new_reasoning("rs_2"),
                "details": [
                    {"type": "reasoning.text", "text": "h", "signature": "a", "index": 0},
                    {"type": "reasoning.text", "text": "m", "signature": "b", "index": 1},
                ],
            },
        ],
    ),
    "details without a type or an index are sent back as they came": (
        [details({"data": "x"}, {"type": ["odd"], "data": "y"}), chunk(finish="stop")],
        [{**items.new_reasoning("rs_1"), "details": [{"data": "x"}, {"type": ["odd"], "data": "y"}]}],
    ),
    "a signature of another block does not get the text of the one before": (
        [
            details({"type": "reasoning.text", "text": "hm", "index": 0}),
            text_chunk("yes!"),
            details({"type": "reasoning.text", "signature": "sig", "index": 1}),
            chunk(finish="stop"),
        ],
        [
            {**items.new_reasoning("rs_1"), "content": [{"type": "reasoning_text", "text": "hm"}]},
            YES,
            {**items.new_reasoning("rs_2"), "details": [{"type": "reasoning.text", "signature": "sig", "index": 1}]},
        ],
    ),
    "a block that is signed already gives its text to no later signature": (
        [
            details(SIGNED),
            text_chunk("yes!"),
            details({"type": "reasoning.text", "signature": "more", "index": 0}),
            chunk(finish="stop"),
        ],
        [
            {
                **items.new_reasoning("rs_1"),
                "content": [{"type": "reasoning_text", "text": "hm"}],
                "details": [SIGNED],
            },
            YES,
            {**items.new_reasoning("rs_2"), "details": [{"type": "reasoning.text", "signature": "more", "index": 0}]},
        ],
    ),
    "signed reasoning that is cut off is incomplete": (
        [details(SIGNED), chunk(finish="length")],
        [
            {
                **items.new_reasoning("rs_1"),
                "content": [{"type": "reasoning_text", "text": "hm"}],
                "details": [SIGNED],
                "status": "incomplete",
            }
        ],
    ),
    "details that are no objects are ignored": (
        [chunk({"reasoning_details": ["hm", 1]}), chunk({"reasoning_details": "hm"}), chunk(finish="stop")],
        [],
    ),
    "a field that has something else than text is ignored": (
        [chunk({"reasoning": {"effort": "low"}}), chunk(finish="stop")],
        [],
    ),
}


@pytest.mark.parametrize(("chunks", "expected"), DETAILS.values(), ids=DETAILS)
def test_reasoning_blocks_are_sent_back_unchanged(chunks: list[Json], expected: list[Item]) -> None:
    assert collect(decode(ChatDecoder(counting_ids()), chunks)) == expected


def test_reasoning_that_switches_to_a_summary_has_both() -> None:
    chunks = [
        details({"type": "reasoning.summary", "summary": "short", "index": 0}),
        details({"type": "reasoning.text", "text": "long", "signature": "s", "index": 1}),
        chunk(finish="stop"),
    ]
    (item,) = collect(decode(ChatDecoder(counting_ids()), chunks))
    assert item["summary"] == [{"type": "summary_text", "text": "short"}]
    assert item["content"] == [{"type": "reasoning_text", "text": "long"}]


CITED = {
    "type": "url_citation",
    "url_citation": {"url": "https://e.org", "title": "E", "start_index": 1, "end_index": 2},
}
CITATION = {"type": "url_citation", "url": "https://e.org", "title": "E", "start_index": 1, "end_index": 2}
OTHER = {"type": "file_path", "file_id": "f", "index": 0}


def test_citations_are_flat_and_on_their_text() -> None:
    chunks = [
        chunk({"annotations": [CITED]}),
        chunk({"content": "yes", "annotations": [OTHER, 1]}),
        chunk(finish="stop"),
    ]
    events = decode(ChatDecoder(counting_ids()), chunks)
    assert [event for event in events if isinstance(event, Annotated)] == [
        Annotated(0, 0, CITATION),
        Annotated(0, 0, OTHER),
    ]


def test_citations_without_text_are_dropped() -> None:
    events = decode(ChatDecoder(counting_ids()), [chunk({"annotations": [CITED]}, "stop")])
    assert events == [STARTED, STOP]


def test_a_citation_without_positions_gets_the_fields_responses_needs() -> None:
    short = {"type": "url_citation", "url_citation": {"url": "https://e.org"}}
    events = decode(ChatDecoder(counting_ids()), [chunk({"content": "yes", "annotations": [short]}, "stop")])
    assert Annotated(0, 0, {**CITATION, "title": "", "start_index": 0, "end_index": 0}) in events


def test_logprobs_have_the_full_form_with_the_text() -> None:
    logprobs = {"content": [{"token": "é", "logprob": -0.5, "bytes": None, "top_logprobs": []}]}
    choice = {"index": 0, "delta": {"content": "é"}, "logprobs": logprobs, "finish_reason": "stop"}
    events = decode(ChatDecoder(counting_ids()), [{"model": "m", "choices": [choice]}])
    token = {"token": "é", "logprob": -0.5, "bytes": [195, 169], "top_logprobs": []}
    assert Delta(0, 0, "é", logprobs=[token]) in events


NO_REPLIES: list[Any] = [[], "text", 1, None, {}, {"found": False}]
NO_REPLIES += [{"choices": choices} for choices in (7, {"index": 0}, ["text"], [{"delta": "text"}])]


@pytest.mark.parametrize("reply", NO_REPLIES, ids=repr)
def test_an_invalid_chat_reply_is_refused(reply: Any) -> None:
    with pytest.raises(ProtocolViolation):
        ChatDecoder(counting_ids()).feed(reply)


def test_an_error_in_another_form_is_a_failure_with_its_message() -> None:
    assert ChatDecoder(counting_ids()).feed({"detail": "Not Found"}) == [Failed("upstream_error", "Not Found")]


@pytest.mark.parametrize("reply", NO_REPLIES[:4], ids=repr)
def test_an_invalid_chunk_is_refused_in_the_middle_of_a_stream_too(reply: Any) -> None:
    decoder = ChatDecoder(counting_ids())
    decoder.feed(text_chunk("yes"))
    with pytest.raises(ProtocolViolation):
        decoder.feed(reply)


def test_the_states_follow_the_stream() -> None:
    decoder = ChatDecoder(counting_ids())
    seen = [decoder.state]
    for each in (text_chunk("yes"), chunk(finish="stop")):
        decoder.feed(each)
        seen.append(decoder.state)
    decoder.finish()
    assert [*seen, decoder.state] == [
        DecoderState.WAITING,
        DecoderState.STREAMING,
        DecoderState.DRAINING,
        DecoderState.ENDED,
    ]


def test_nothing_follows_the_finish() -> None:
    decoder = ChatDecoder(counting_ids())
    decode(decoder, [chunk({"content": "yes"}, "stop")])
    assert decoder.feed(text_chunk("more")) == []
    assert decoder.finish() == []


@pytest.mark.parametrize("recording", recordings("chat"), ids=lambda path: path.stem)
def test_recordings_become_their_expected_events(recording: Any, update_golden: bool) -> None:
    events = decode(ChatDecoder(counting_ids()), chunks_of(recording.read_bytes()))
    check_events(recording, events, update=update_golden)


@pytest.mark.parametrize("whole", sorted((GOLDEN / "chat").glob("*.json")), ids=lambda path: path.stem)
def test_streams_and_json_replies_give_the_same_events(whole: Any) -> None:
    streamed = decode(ChatDecoder(counting_ids()), chunks_of(whole.with_suffix(".sse").read_bytes()))
    at_once = decode(ChatDecoder(counting_ids()), [orjson.loads(whole.read_bytes())])
    assert [_without_ids(item) for item in collect(at_once)] == [_without_ids(item) for item in collect(streamed)]
    assert at_once[-1].reason == streamed[-1].reason  # type: ignore[union-attr]


def _without_ids(item: Item) -> Item:
    return {key: value for key, value in item.items() if key not in ("id", "call_id")}


ODD: st.SearchStrategy[Any] = st.sampled_from(
    [
        None,
        True,
        0,
        -1,
        2.5,
        "",
        "x",
        "\n",
        "<think>",
        [],
        {},
        ["x"],
        [None],
        [{}],
        [[1]],
        {"text": 1},
        {"type": []},
        {"type": "text", "text": "x"},
        {"name": "f", "arguments": 1},
        [{"function": {"name": "f"}}],
        [{"id": 7}],
        [{"index": 0, "function": {"arguments": "{"}}],
        [{"type": "reasoning.text", "text": 3, "index": {}}],
    ]
)
FIELDS = ["content", "reasoning", "reasoning_content", "reasoning_details", "refusal", "tool_calls", "function_call"]
DELTAS = st.dictionaries(st.sampled_from([*FIELDS, "annotations"]), ODD, max_size=3)


@given(st.lists(DELTAS, max_size=4), st.sampled_from([Profile(), THINK, THINK_OPEN]), st.booleans())
def test_odd_deltas_still_give_a_stream_with_an_end(deltas: list[Json], profile: Profile, whole: bool) -> None:
    chunks = [completion(delta) if whole else chunk(delta) for delta in deltas]
    try:
        events = decode(ChatDecoder(counting_ids(), profile), [*chunks, chunk(finish="stop")])
    except ProtocolViolation:
        # Calls that cannot be read end the reply as garbled, so that none is lost.
        # So do refusals without a text.
        assert any(delta.get(key) for delta in deltas for key in ("tool_calls", "function_call", "refusal"))
        return
    assert isinstance(events[-1], Finished | Failed)


def test_an_operator_may_request_thoughts_as_a_summary() -> None:
    chunks = [chunk({"reasoning": "a"}), chunk({"reasoning": "b"}), text_chunk("c"), chunk(finish="stop")]
    events = decode(ChatDecoder(counting_ids(), Profile(reasoning_part="summary_text")), chunks)
    assert [event.part["type"] for event in events if isinstance(event, PartStarted)] == ["summary_text", "output_text"]
    assert "".join(event.text for event in events if isinstance(event, Delta)) == "abc"


WAITING = Profile(parsing_format="think_tags")


@pytest.mark.parametrize(
    ("chunks", "kinds"),
    [
        ([text_chunk("a"), text_chunk("</think>b")], ["reasoning", "message"]),
        (
            [text_chunk("a"), chunk({"reasoning_content": "b"}), text_chunk("</think>c")],
            ["message", "reasoning", "message"],
        ),
        ([text_chunk("a"), calls(call(0, id="c", name="f", arguments="{}"))], ["message", "function_call"]),
        ([text_chunk("a"), chunk({"refusal": "no"})], ["message"]),
        ([text_chunk("a"), text_chunk("b")], ["message"]),
    ],
    ids=["a closing tag", "separate reasoning", "a call", "a refusal", "no tag"],
)
def test_text_before_the_first_tag_waits_for_its_kind(chunks: list[Json], kinds: list[str]) -> None:
    events = decode(ChatDecoder(counting_ids(), WAITING), [*chunks, chunk(finish="stop")])
    assert [item["type"] for item in collect(events)] == kinds
