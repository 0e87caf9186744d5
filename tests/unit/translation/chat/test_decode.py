"""What chat upstreams send, and the events it means."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.support.chat_chunks import call, calls, chunk, completion, text_chunk, thought, usage_only
from tests.unit.support.golden import GOLDEN, check_events, chunks_of, recordings
from tests.unit.support.translator_drivers import collect, counting_ids, decode
from translation.chat.decode import ChatDecoder, DecoderState
from translation.errors import ProtocolViolation
from translation.representation import items
from translation.representation.events import (
    Annotated,
    Delta,
    Event,
    Failed,
    Finished,
    ItemEnded,
    ItemStarted,
    Noted,
    Opaque,
    PartEnded,
    PartStarted,
    Started,
    Usage,
)
from translation.representation.json_types import Item, Json
from translation.representation.profile import Profile

STARTED = Started("m", "c1")
STOP = Finished("stop", "stop")
TIRED = ("tired" * 30)[:100]
THINK = Profile(parsing_format="think_tags")
THINK_OPEN = Profile(parsing_format="think_tags", think_open=True)
LEADING = Profile(parsing_format="leading_think_tags")
LEADING_OPEN = Profile(parsing_format="leading_think_tags", think_open=True)

USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
COUNTS = Usage(input=5, output=2, raw=USAGE)


def message(index: int, *texts: str, id: str = "msg_1", status: Any = "completed") -> list[Event]:
    return [
        ItemStarted(index, items.new_message(id)),
        PartStarted(index, 0, items.new_output_text()),
        *(Delta(index, 0, text) for text in texts),
        PartEnded(index, 0),
        ItemEnded(index, status=status),
    ]


def reasoning(index: int, *texts: str, id: str = "rs_1", status: Any = "completed") -> list[Event]:
    return [
        ItemStarted(index, items.new_reasoning(id)),
        PartStarted(index, 0, items.new_reasoning_text()),
        *(Delta(index, 0, text) for text in texts),
        PartEnded(index, 0),
        ItemEnded(index, status=status),
    ]


def function(index: int, name: str, *texts: str, call_id: str = "a", id: str = "fc_1") -> list[Event]:
    return [
        ItemStarted(index, items.new_function_call(id, call_id=call_id, name=name)),
        *(Delta(index, None, text) for text in texts),
        PartEnded(index, None),
        ItemEnded(index),
    ]


CASES: dict[str, tuple[list[Json], list[Event]]] = {
    "text becomes one message": (
        [chunk({"role": "assistant", "content": ""}), text_chunk("Hel"), text_chunk("lo"), chunk(finish="stop")],
        [STARTED, *message(0, "Hel", "lo"), STOP],
    ),
    "text in the finishing chunk is not lost": (
        [text_chunk("Hel"), chunk({"content": "lo"}, "stop")],
        [STARTED, *message(0, "Hel", "lo"), STOP],
    ),
    "text after the finishing chunk still belongs to the message": (
        [chunk({"content": "Hel"}, "stop"), chunk({"content": "lo"}, "length")],
        [STARTED, *message(0, "Hel", "lo"), STOP],
    ),
    "reasoning comes before the text it led to": (
        [thought("hm"), text_chunk("yes"), chunk(finish="stop")],
        [STARTED, *reasoning(0, "hm"), *message(1, "yes"), STOP],
    ),
    "reasoning and text may take turns": (
        [thought("a"), text_chunk("b"), thought("c"), text_chunk("d"), chunk(finish="stop")],
        [
            STARTED,
            *reasoning(0, "a"),
            *message(1, "b"),
            *reasoning(2, "c", id="rs_2"),
            *message(3, "d", id="msg_2"),
            STOP,
        ],
    ),
    "reasoning sent in two fields is said once": (
        [
            chunk({"reasoning": "hm", "reasoning_content": "hm", "reasoning_details": [{"type": "reasoning.text"}]}),
            text_chunk("yes"),
            chunk(finish="stop"),
        ],
        [STARTED, *reasoning(0, "hm"), *message(1, "yes"), STOP],
    ),
    "reasoning sent again in another field is left out": (
        [thought("hm", "reasoning"), thought("hm", "reasoning_content"), text_chunk("yes"), chunk(finish="stop")],
        [STARTED, *reasoning(0, "hm"), *message(1, "yes"), STOP],
    ),
    "line breaks around reasoning are dropped, inside it they stay": (
        [
            thought("\nI", "reasoning"),
            thought(" see\n\n", "reasoning"),
            thought("it\n", "reasoning"),
            text_chunk("\n"),
            text_chunk("\nyes\n"),
            chunk(finish="stop"),
        ],
        [STARTED, *reasoning(0, "I", " see", "\n\nit"), *message(1, "yes\n"), STOP],
    ),
    "line breaks before text without reasoning stay": (
        [text_chunk("\n\nyes"), chunk(finish="stop")],
        [STARTED, *message(0, "\n\nyes"), STOP],
    ),
    "line breaks between reasoning and a call are no message": (
        [
            thought("hm\n", "reasoning"),
            text_chunk("\n\n"),
            calls(call(0, id="a", name="f", arguments="{}")),
            chunk(finish="tool_calls"),
        ],
        [STARTED, *reasoning(0, "hm"), *function(1, "f", "{}"), Finished("tool_calls", "tool_calls")],
    ),
    "reasoning of line breaks only is no reasoning": (
        [thought("\n\n", "reasoning"), text_chunk("\n\nyes"), chunk(finish="stop")],
        [STARTED, *message(0, "yes"), STOP],
    ),
    "a refusal is a part of its own": (
        [text_chunk("I "), chunk({"refusal": "no"}), chunk(finish="stop")],
        [
            STARTED,
            ItemStarted(0, items.new_message("msg_1")),
            PartStarted(0, 0, items.new_output_text()),
            Delta(0, 0, "I "),
            PartEnded(0, 0),
            PartStarted(0, 1, items.new_refusal()),
            Delta(0, 1, "no"),
            PartEnded(0, 1),
            ItemEnded(0),
            STOP,
        ],
    ),
    "text cut by the length is incomplete": (
        [thought("hm"), text_chunk("yes"), chunk(finish="length")],
        [STARTED, *reasoning(0, "hm"), *message(1, "yes", status="incomplete"), Finished("length", "length")],
    ),
    "reasoning cut by the length is incomplete": (
        [thought("hm"), chunk(finish="length")],
        [STARTED, *reasoning(0, "hm", status="incomplete"), Finished("length", "length")],
    ),
    "filtered text is incomplete": (
        [text_chunk("yes"), chunk(finish="content_filter")],
        [STARTED, *message(0, "yes", status="incomplete"), Finished("content_filter", "content_filter")],
    ),
    "an unknown finish reason is kept as it came": (
        [text_chunk("yes"), chunk(finish="tired")],
        [STARTED, *message(0, "yes"), Finished("other", "tired")],
    ),
    "an unknown finish reason of an answer without anything in it is a failure": (
        [chunk(finish="tired" * 30)],
        [
            STARTED,
            Failed("upstream_error", f"the upstream sent no output and ended with an unknown finish reason: {TIRED}"),
        ],
    ),
    "calls that end in stop are calls": (
        [calls(call(0, id="a", name="f", arguments="{}")), chunk(finish="stop")],
        [STARTED, *function(0, "f", "{}"), Finished("tool_calls", "stop")],
    ),
    "tool_calls without a call is a stop": (
        [text_chunk("yes"), chunk(finish="tool_calls")],
        [STARTED, *message(0, "yes"), Finished("stop", "tool_calls")],
    ),
    "the legacy function_call is a call": (
        [
            chunk({"function_call": {"name": "f", "arguments": ""}}),
            chunk({"function_call": {"arguments": "{}"}}),
            chunk(finish="function_call"),
        ],
        [STARTED, *function(0, "f", "{}", call_id="tc_1"), Finished("tool_calls", "function_call")],
    ),
    "usage after the finish reason is kept": (
        [text_chunk("yes"), chunk(finish="stop"), usage_only(**USAGE)],
        [
            STARTED,
            ItemStarted(0, items.new_message("msg_1")),
            PartStarted(0, 0, items.new_output_text()),
            Delta(0, 0, "yes"),
            Noted(usage=COUNTS),
            PartEnded(0, 0),
            ItemEnded(0),
            Finished("stop", "stop", COUNTS),
        ],
    ),
    "usage beside the finish reason or in the choice is kept": (
        [
            {
                "model": "m",
                "choices": [{"delta": {}, "finish_reason": "stop", "usage": USAGE}],
                "usage": {"prompt_tokens": 5},
            }
        ],
        [
            Started("m"),
            Noted(usage=Usage(input=5, raw={"prompt_tokens": 5})),
            Noted(usage=COUNTS),
            Finished("stop", "stop", COUNTS),
        ],
    ),
    "usage that is no object is ignored": (
        [text_chunk("yes") | {"usage": 7}, chunk(finish="stop")],
        [STARTED, *message(0, "yes"), STOP],
    ),
    "facts are noted when they change": (
        [
            chunk(service_tier="flex", system_fingerprint=None),
            chunk(service_tier="flex", system_fingerprint="fp"),
            chunk(finish="stop"),
        ],
        [STARTED, Noted(facts={"service_tier": "flex"}), Noted(facts={"system_fingerprint": "fp"}), STOP],
    ),
    "a fact beside text is noted": (
        [
            text_chunk("y"),
            text_chunk("e") | {"service_tier": "flex"},
            text_chunk("s") | {"service_tier": "flex"},
            chunk(finish="stop"),
        ],
        [
            STARTED,
            *message(0, "y")[:-2],
            Noted(facts={"service_tier": "flex"}),
            *message(0, "e", "s")[2:],
            STOP,
        ],
    ),
    "usage and an error beside text are not overlooked": (
        [text_chunk("y"), text_chunk("e") | {"usage": USAGE}, text_chunk("s") | {"error": "boom"}],
        [
            STARTED,
            *message(0, "y")[:-2],
            Noted(usage=COUNTS),
            Delta(0, 0, "e"),
            Failed("upstream_error", "boom", usage=COUNTS),
        ],
    ),
    "only the first choice is followed": (
        [
            {
                "id": "c1",
                "model": "m",
                "choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}],
            },
            text_chunk("yes"),
            chunk(finish="stop"),
        ],
        [STARTED, *message(0, "yes"), STOP],
    ),
    "a chunk without choices before the first is no content": (
        [{"object": "chat.completion.chunk", "choices": None}, text_chunk("yes"), chunk(finish="stop")],
        [Started(""), *message(0, "yes"), STOP],
    ),
    "an error between chunks ends the stream with the usage so far": (
        [chunk(usage=USAGE), {"error": {"message": "boom", "code": 500}}, text_chunk("late")],
        [STARTED, Noted(usage=COUNTS), Failed("upstream_error", "boom", usage=COUNTS)],
    ),
    "an error in a choice ends the stream": (
        [{"id": "c1", "model": "m", "choices": [{"error": {"code": 429, "message": "slow down"}}, {"delta": {}}]}],
        [STARTED, Failed("rate_limited", "slow down")],
    ),
    "a finish reason that says it broke off is a failure": (
        [text_chunk("ye"), chunk(finish="error")],
        [STARTED, *message(0, "ye")[:-2], Failed("upstream_error", "the upstream broke off its reply")],
    ),
    "a null error is none": (
        [text_chunk("yes") | {"error": None}, chunk(finish="stop")],
        [STARTED, *message(0, "yes"), STOP],
    ),
    "a stream that just stops is a failure": (
        [text_chunk("ye")],
        [
            STARTED,
            *message(0, "ye")[:-2],
            Failed("upstream_truncated", "the upstream's reply broke off before it was finished"),
        ],
    ),
    "a stream that says nothing is a failure": (
        [],
        [Failed("upstream_truncated", "the upstream's reply broke off before it was finished")],
    ),
    "arguments of a call without a name are garbled": (
        [calls(call(0, id="a", arguments="{}")), chunk(finish="tool_calls")],
        [STARTED, Failed("upstream_garbled", "the upstream sent a tool call without a name")],
    ),
    "content as a list of parts is read part by part": (
        [
            chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}),
            chunk({"content": ["y", {"type": "text", "text": "es"}, {"type": "image", "id": 1}]}),
            chunk({"content": [{"type": "refusal", "refusal": "no"}, None, [{"text": "!"}]]}, "stop"),
        ],
        [
            STARTED,
            *reasoning(0, "hm"),
            *message(1, "y", "es")[:-2],
            Opaque("chat", {"type": "image", "id": 1}),
            PartEnded(1, 0),
            PartStarted(1, 1, items.new_refusal()),
            Delta(1, 1, "no"),
            PartEnded(1, 1),
            PartStarted(1, 2, items.new_output_text()),
            Delta(1, 2, "!"),
            PartEnded(1, 2),
            ItemEnded(1),
            STOP,
        ],
    ),
    "thinking parts are left out where a field has the same": (
        [
            chunk({"reasoning_content": "hm", "content": [{"type": "thinking", "thinking": "hm"}]}),
            text_chunk("yes"),
            chunk(finish="stop"),
        ],
        [STARTED, *reasoning(0, "hm"), *message(1, "yes"), STOP],
    ),
    "thinking as a string is reasoning": (
        [chunk({"content": [{"type": "thinking", "thinking": "hm"}]}), chunk(finish="stop")],
        [STARTED, *reasoning(0, "hm"), STOP],
    ),
    "text after thinking parts is not reasoning too, where the field for it is there and empty": (
        [
            chunk({"content": [{"type": "thinking", "thinking": "hm"}]}),
            chunk({"content": "yes", "reasoning_content": None}),
            chunk(finish="stop"),
        ],
        [STARTED, *reasoning(0, "hm"), *message(1, "yes"), STOP],
    ),
    "content as a number is text": (
        [chunk({"content": 42}), chunk(finish="stop")],
        [STARTED, *message(0, "42"), STOP],
    ),
    "a whole completion means what its stream would": (
        [
            completion(
                {
                    "content": "yes",
                    "reasoning": "hm",
                    "tool_calls": [
                        {"id": "a", "function": {"name": "f", "arguments": "{}"}},
                        {"id": "b", "function": {"name": "g", "arguments": ""}},
                    ],
                },
                "tool_calls",
            )
        ],
        [
            STARTED,
            *reasoning(0, "hm"),
            *message(1, "yes"),
            *function(2, "f", "{}")[:-2],
            ItemStarted(3, items.new_function_call("fc_2", call_id="b", name="g")),
            Delta(3, None, "{}"),
            PartEnded(2, None),
            ItemEnded(2),
            PartEnded(3, None),
            ItemEnded(3),
            Finished("tool_calls", "tool_calls"),
        ],
    ),
    "a whole completion without a finish reason is finished": (
        [completion({"content": "yes"}, None)],
        [STARTED, *message(0, "yes"), Finished("stop")],
    ),
    "a stream that repeats the whole message at its end says it once": (
        [text_chunk("yes"), completion({"content": "yes"})],
        [STARTED, *message(0, "yes"), STOP],
    ),
}


@pytest.mark.parametrize(("chunks", "expected"), CASES.values(), ids=CASES)
def test_chunks_become_events(chunks: list[Json], expected: list[Event]) -> None:
    assert decode(ChatDecoder(counting_ids()), chunks) == expected


def texts(events: list[Event]) -> list[tuple[str, str]]:
    """(item type, text) of every message and reasoning item."""
    return [(item["type"], "".join(part["text"] for part in item["content"])) for item in collect(events)]


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
def test_reasoning_blocks_go_back_as_they_came(chunks: list[Json], expected: list[Item]) -> None:
    assert collect(decode(ChatDecoder(counting_ids()), chunks)) == expected


def test_reasoning_that_switches_to_a_summary_keeps_both() -> None:
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


def test_citations_are_said_flat_and_on_the_text_they_belong_to() -> None:
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


def test_citations_without_any_text_have_nothing_to_be_on() -> None:
    events = decode(ChatDecoder(counting_ids()), [chunk({"annotations": [CITED]}, "stop")])
    assert events == [STARTED, STOP]


def test_a_citation_without_positions_gets_the_fields_responses_needs() -> None:
    short = {"type": "url_citation", "url_citation": {"url": "https://e.org"}}
    events = decode(ChatDecoder(counting_ids()), [chunk({"content": "yes", "annotations": [short]}, "stop")])
    assert Annotated(0, 0, {**CITATION, "title": "", "start_index": 0, "end_index": 0}) in events


def test_logprobs_come_in_the_full_form_with_the_text() -> None:
    logprobs = {"content": [{"token": "é", "logprob": -0.5, "bytes": None, "top_logprobs": []}]}
    choice = {"index": 0, "delta": {"content": "é"}, "logprobs": logprobs, "finish_reason": "stop"}
    events = decode(ChatDecoder(counting_ids()), [{"model": "m", "choices": [choice]}])
    token = {"token": "é", "logprob": -0.5, "bytes": [195, 169], "top_logprobs": []}
    assert Delta(0, 0, "é", logprobs=[token]) in events


NO_REPLIES: list[Any] = [[], "text", 1, None, {}, {"detail": "Not Found"}]
NO_REPLIES += [{"choices": choices} for choices in (7, {"index": 0}, ["text"], [{"delta": "text"}])]


@pytest.mark.parametrize("reply", NO_REPLIES, ids=repr)
def test_what_is_no_chat_reply_is_refused(reply: Any) -> None:
    with pytest.raises(ProtocolViolation):
        ChatDecoder(counting_ids()).feed(reply)


@pytest.mark.parametrize("reply", NO_REPLIES[:4], ids=repr)
def test_what_is_no_chunk_is_refused_in_the_middle_of_a_stream_too(reply: Any) -> None:
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


def test_nothing_comes_after_the_end() -> None:
    decoder = ChatDecoder(counting_ids())
    decode(decoder, [chunk({"content": "yes"}, "stop")])
    assert decoder.feed(text_chunk("more")) == []
    assert decoder.finish() == []


@pytest.mark.parametrize("recording", recordings("chat"), ids=lambda path: path.stem)
def test_recordings_are_understood_as_written_down(recording: Any, update_golden: bool) -> None:
    events = decode(ChatDecoder(counting_ids()), chunks_of(recording.read_bytes()))
    check_events(recording, events, update=update_golden)


@pytest.mark.parametrize("whole", sorted((GOLDEN / "chat").glob("*.json")), ids=lambda path: path.stem)
def test_streamed_and_whole_answers_mean_the_same(whole: Any) -> None:
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
        assert any(delta.get("tool_calls") or delta.get("function_call") for delta in deltas)
        return
    assert isinstance(events[-1], Finished | Failed)


def test_an_operator_may_have_thoughts_shown_as_a_summary() -> None:
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
