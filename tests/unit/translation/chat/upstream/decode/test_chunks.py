"""Decodes chunks of chat upstreams to events."""

import pytest

from tests.unit.support.chat_chunks import call, calls, chunk, completion, text_chunk, thought, usage_only
from tests.unit.support.translator_drivers import counting_ids, decode
from tests.unit.translation.chat.upstream.decode.decoded_texts import STARTED, STOP, function, message, reasoning
from translation.chat.upstream.decode import ChatDecoder
from translation.representation import items
from translation.representation.events import (
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
from translation.representation.json_types import Json

TIRED = ("tired" * 30)[:100]

USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
COUNTS = Usage(input=5, output=2, raw=USAGE)


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
        [chunk({"content": "Hel"}, "stop"), chunk({"content": "lo"}, "eos")],
        [STARTED, *message(0, "Hel", "lo"), STOP],
    ),
    "a later finish reason counts if it says that the answer was cut off": (
        [chunk({"content": "Hel"}, "stop"), chunk({}, "length")],
        decode(ChatDecoder(counting_ids()), [chunk({"content": "Hel"}, "length")]),
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
    "reasoning sent in two fields is one text": (
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
    "an unknown finish reason is preserved": (
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
    "usage after the finish reason counts": (
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
    "usage beside the finish reason or in the choice counts": (
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
        [STARTED, Opaque("chat", {"type": "choice"}, is_output=True), *message(0, "yes"), STOP],
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
    "a finish reason about a truncation is a failure": (
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
    "an empty stream is a failure": (
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
            *function(2, "f", "{}"),
            ItemStarted(3, items.new_function_call("fc_2", call_id="b", name="g")),
            Delta(3, None, "{}"),
            PartEnded(3, None),
            ItemEnded(3),
            Finished("tool_calls", "tool_calls"),
        ],
    ),
    "a whole completion without a finish reason is finished": (
        [completion({"content": "yes"}, None)],
        [STARTED, *message(0, "yes"), Finished("stop")],
    ),
    "a stream that repeats the whole message at its end has it once": (
        [text_chunk("yes"), completion({"content": "yes"})],
        [STARTED, *message(0, "yes"), STOP],
    ),
}


@pytest.mark.parametrize(("chunks", "expected"), CASES.values(), ids=CASES)
def test_chunks_become_events(chunks: list[Json], expected: list[Event]) -> None:
    assert decode(ChatDecoder(counting_ids()), chunks) == expected


def test_further_choices_that_nobody_asked_for_are_noted_once() -> None:
    further: list[Json] = [{"choices": [{"index": index, "delta": {"content": "no"}}]} for index in (1, 1, 2)]
    events = decode(ChatDecoder(counting_ids()), [text_chunk("yes"), *further, chunk(finish="stop")])
    assert [event for event in events if isinstance(event, Opaque)] == [
        Opaque("chat", {"type": "choice"}, is_output=True)
    ]
