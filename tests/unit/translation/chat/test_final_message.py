"""A whole `message` beside the deltas of a chat stream: what it has beyond them is sent, another one fails the reply.

That holds for relayed and for translated replies, with frames that take the fast path and with others.
"""

from collections.abc import Sequence
from itertools import count
from typing import Any, NamedTuple

import orjson
import pytest

from translation.chat.final_message import StreamedMessage
from translation.chat.relaying.choices import ChunkForm
from translation.chat.relaying.chunk_identity import OwnCompletion
from translation.chat.relaying.relay import ChatRelay
from translation.chat.upstream.decode import ChatDecoder
from translation.errors import ProtocolViolation
from translation.framing import sse
from translation.representation.events import Annotated, Delta, Event, Failed, ItemEnded, ItemStarted, Opaque
from translation.representation.profile import Profile
from translation.representation.streamed_text import FinalRest

Json = dict[str, Any]


class Seen(NamedTuple):
    """What a client concludes of the deltas that it got."""

    text: str = ""
    reasoning: str = ""
    calls: Sequence[tuple[str, str]] = ()
    """(name, arguments)"""


FAILS = Seen("failed")


def chunk(delta: Any = None, finish: str | None = None, **choice: Any) -> Json:
    """Returns a chunk. Without a delta it has none."""
    deltas = {} if delta is None else {"delta": delta}
    choices = [{"index": 0, **deltas, "finish_reason": finish, **choice}]
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "u", "choices": choices}


def texts(*pieces: str, field: str = "content") -> list[Json]:
    return [chunk({"role": "assistant", "content": ""}), *(chunk({field: piece}) for piece in pieces)]


def call(arguments: str | None, name: str | None = "look_up", index: int = 0, id: str | None = "a") -> Json:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {"index": index, **({"id": id} if id else {}), "type": "function", "function": function}


def calls(*entries: Json) -> list[Json]:
    return [chunk({"tool_calls": [entry]}) for entry in entries]


def end(message: Any, finish: str = "stop", delta: Any = None) -> Json:
    return chunk({} if delta is None else delta, finish, message=message)


STREAMED = texts("The ", "answer ", "is ")
ANSWER = {"role": "assistant", "content": "The answer is 42."}
THINKING = texts("I ", "think ", field="reasoning_content")
HALF_CALL = calls(call('{"city"'), call(': "Par', None))
WHOLE_CALL = {"tool_calls": [call('{"city": "Paris"}')]}
PARIS = ("look_up", '{"city": "Paris"}')

CASES: dict[str, tuple[list[Json], Seen]] = {
    "more text": ([*STREAMED, end(ANSWER)], Seen("The answer is 42.")),
    "more text than a first message has": (
        [chunk(message={"content": "The answer"}), chunk(None, "stop", message=ANSWER)],
        Seen("The answer is 42."),
    ),
    "another text than a first message has": (
        [chunk(message={"content": "No answer"}), chunk({"content": " is 42."}), end(ANSWER)],
        FAILS,
    ),
    "more text, and no delta": ([*STREAMED, chunk(None, "stop", message=ANSWER)], Seen("The answer is 42.")),
    "more text after a last delta": (
        [*STREAMED, end(ANSWER, delta={"content": "4"})],
        Seen("The answer is 42."),
    ),
    "more text in a chunk after the finish reason": (
        [*STREAMED, chunk({}, "stop"), chunk({}, message=ANSWER)],
        Seen("The answer is 42."),
    ),
    "more text in a chunk before the finish reason": (
        [*STREAMED, chunk({}, message=ANSWER), chunk({}, "stop")],
        Seen("The answer is 42."),
    ),
    "more text beside a text before the finish reason": (
        [*STREAMED[:-1], chunk({"content": "is "}, message=ANSWER), chunk({}, "stop")],
        Seen("The answer is 42."),
    ),
    "more text than the deltas have yet, which then go on": (
        [
            *texts(),
            chunk({"content": "The "}, message={"content": "The answer "}),
            *texts("answer ", "is ", "42.")[1:],
            chunk({}, "stop"),
        ],
        Seen("The answer is 42."),
    ),
    "more thinking than the deltas have yet, which then go on": (
        [
            chunk({"reasoning_content": "I "}, message={"content": "", "reasoning_content": "I think "}),
            *texts("think ", "so.", field="reasoning_content")[1:],
            *texts("Yes.")[1:],
            chunk({}, "stop"),
        ],
        Seen("Yes.", "I think so."),
    ),
    "all text": ([*texts(), end(ANSWER)], Seen("The answer is 42.")),
    "all text, and nothing before": ([end(ANSWER)], Seen("The answer is 42.")),
    "all text, without a delta": ([chunk(None, "stop", message=ANSWER)], Seen("The answer is 42.")),
    "all text, and an empty delta before": ([*texts(), chunk(None, "stop", message=ANSWER)], Seen("The answer is 42.")),
    "the same text": ([*STREAMED, chunk({"content": "42."}), end(ANSWER)], Seen("The answer is 42.")),
    "the same text in parts": (
        [*STREAMED, end({"content": [{"type": "text", "text": "The answer is "}]})],
        Seen("The answer is "),
    ),
    "the same text without its white space": (
        [*texts("\n\nThe", " answer\n"), end({"content": "The answer"})],
        Seen("\n\nThe answer\n"),
    ),
    "more text than a text with white space": (
        [*texts("\n\nThe", " answer "), end({"content": "The answer is 42."})],
        Seen("\n\nThe answer  is 42."),
    ),
    "text beyond ASCII": ([*texts("Grü", "ße 😀"), end({"content": "Grüße 😀!"})], Seen("Grüße 😀!")),
    "text with escapes": ([*texts('a"', "\n\t", "\\"), end({"content": 'a"\n\t\\b'})], Seen('a"\n\t\\b')),
    "no text": ([*STREAMED, end({"role": "assistant", "content": ""})], Seen("The answer is ")),
    "text that is null": ([*STREAMED, end({"role": "assistant", "content": None})], Seen("The answer is ")),
    "a message that is null": ([*STREAMED, end(None)], Seen("The answer is ")),
    "the text without its thinking": (
        [*texts("<think>", "Hm.", "</think>", "Hel", "lo"), end({"content": "Hello"})],
        Seen("<think>Hm.</think>Hello"),
    ),
    "the text without its thinking, which has its own field": (
        [*texts("<think>Hm.</think>", "Hel", "lo"), end({"content": "Hello", "reasoning": "Hm."})],
        Seen("<think>Hm.</think>Hello"),
    ),
    "the text without thinking that was opened in the prompt": (
        [*texts("H", "m", ".", "</think>", "Hel", "lo"), end({"content": "Hello", "reasoning_content": "Hm."})],
        Seen("Hm.</think>Hello"),
    ),
    "the text with its thinking, which has its own field": (
        [*texts("<think>Hm.</think>", "Hello"), end({"content": "<think>Hm.</think>Hello", "reasoning": "Hm."})],
        Seen("<think>Hm.</think>Hello"),
    ),
    "more text than a text with thinking": (
        [*texts("<think>", "Hm.</think>", "Hel"), end({"content": "Hello"})],
        Seen("<think>Hm.</think>Hello"),
    ),
    "another normal form": ([*texts("Cafe\u0301", " ok"), end({"content": "Café ok"})], Seen("Cafe\u0301 ok")),
    "another normal form, and reasoning": (
        [*texts("Cafe\u0301"), end({"content": "Café", "reasoning": "Hm."})],
        Seen("Cafe\u0301", "Hm."),
    ),
    "another text after thinking": ([*texts("<think>Hm.</think>Hello"), end({"content": "Hullo"})], FAILS),
    "another text": ([*STREAMED, end({"content": "The question is 42."})], FAILS),
    "a shorter text": ([*STREAMED, end({"content": "The answer"})], FAILS),
    "a message that is a text": ([*STREAMED, end("The answer is 42.")], FAILS),
    "a copy of each delta": (
        [chunk({"content": text}, message={"content": text}) for text in ("The ", "answer ", "is ")]
        + [end({"content": ""}, delta={"content": ""})],
        Seen("The answer is "),
    ),
    "the message so far in each chunk": (
        [
            *(
                chunk({"content": text}, message={"role": "assistant", "content": so_far})
                for text, so_far in (("The ", "The "), ("answer ", "The answer "), ("is ", "The answer is "))
            ),
            end(ANSWER),
        ],
        Seen("The answer is 42."),
    ),
    "another message so far, and then the whole": (
        [*STREAMED, chunk({}, message={"content": "The answer so far"}), chunk({}, "stop")],
        FAILS,
    ),
    "the message so far in one chunk": (
        [*STREAMED, chunk({}, message={"content": "The answer is "}), chunk({"content": "42."}), chunk({}, "stop")],
        Seen("The answer is 42."),
    ),
    "no text, and more in the next message": (
        [chunk(message={"content": "The "}), chunk(message={"content": "The answer"}), chunk(None, "stop")],
        Seen("The answer"),
    ),
    "pieces instead of the whole": (
        [chunk(message={"content": "The "}), chunk(message={"content": "answer"}), chunk(None, "stop")],
        FAILS,
    ),
    "pieces beside empty deltas": (
        [chunk({}, message={"content": "The "}), chunk({}, message={"content": "answer"}), chunk({}, "stop")],
        FAILS,
    ),
    "a refusal": ([*texts("I ", field="refusal"), end({"refusal": "I cannot."})], Seen("I cannot.")),
    "another refusal": ([*texts("I ", field="refusal"), end({"refusal": "You cannot."})], FAILS),
    "more reasoning": (
        [*THINKING, end({"reasoning_content": "I think so.", "content": ""})],
        Seen("", "I think so."),
    ),
    "reasoning in another field": ([*THINKING, end({"reasoning": "I think "})], Seen("", "I think")),
    "other reasoning": ([*THINKING, end({"reasoning_content": "No.", "content": "Yes"})], Seen("Yes", "I think")),
    "all reasoning, and the text": (
        [*texts(), end({"reasoning_content": "I think so.", "content": "Yes"})],
        Seen("Yes", "I think so."),
    ),
    "the rest of a call": ([*HALF_CALL, end(WHOLE_CALL, "tool_calls")], Seen(calls=[PARIS])),
    "the rest of a call without an id": (
        [*HALF_CALL, end({"tool_calls": [call('{"city": "Paris"}', id=None)]}, "tool_calls")],
        Seen(calls=[PARIS]),
    ),
    "arguments as an object": (
        [*calls(call('{"city":"Par')), end({"tool_calls": [call({"city": "Paris"})]}, "tool_calls")],  # type: ignore[arg-type]
        Seen(calls=[("look_up", '{"city":"Paris"}')]),
    ),
    "all arguments": ([*calls(call("")), end(WHOLE_CALL, "tool_calls")], Seen(calls=[PARIS])),
    "all of a call": ([*texts(), end(WHOLE_CALL, "tool_calls")], Seen(calls=[PARIS])),
    "a call after text": ([*STREAMED, end(WHOLE_CALL, "tool_calls")], Seen("The answer is ", calls=[PARIS])),
    "one more call": (
        [*calls(call("{}")), end({"tool_calls": [call("{}"), call('{"b":1}', "add", 1, "b")]}, "tool_calls")],
        Seen(calls=[("look_up", "{}"), ("add", '{"b":1}')]),
    ),
    "the same call, written in another way": (
        [*calls(call('{"city":"Paris"}')), end(WHOLE_CALL, "tool_calls")],
        Seen(calls=[("look_up", '{"city":"Paris"}')]),
    ),
    "no calls": ([*HALF_CALL, *calls(call('is"}', None)), end({"content": None}, "tool_calls")], Seen(calls=[PARIS])),
    "calls in another order": (
        [
            *calls(call('{"a"', "one", 0, "a"), call('{"b"', "two", 1, "b")),
            end({"tool_calls": [call('{"b":2}', "two", 0, "b"), call('{"a":1}', "one", 1, "a")]}, "tool_calls"),
        ],
        Seen(calls=[("one", '{"a":1}'), ("two", '{"b":2}')]),
    ),
    "a legacy call": (
        [*texts(), end({"function_call": {"name": "look_up", "arguments": '{"city": "Paris"}'}}, "function_call")],
        Seen(calls=[PARIS]),
    ),
    "other arguments": ([*HALF_CALL, end({"tool_calls": [call('{"town": "Paris"}')]}, "tool_calls")], FAILS),
    "other whole arguments": ([*calls(call("{}")), end({"tool_calls": [call('{"a":1}')]}, "tool_calls")], FAILS),
    "another tool": ([*HALF_CALL, end({"tool_calls": [call('{"city": "Paris"}', "drop")]}, "tool_calls")], FAILS),
    "fewer calls": (
        [*calls(call("{}"), call("{}", "add", 1, "b")), end({"tool_calls": [call("{}")]}, "tool_calls")],
        FAILS,
    ),
    "calls that are no list": ([*STREAMED, end({"tool_calls": 5})], FAILS),
}


def relay(chunks: list[Json], *, at_once: bool, **form: Any) -> tuple[ChatRelay, list[Json]]:
    """Returns the relay after the stream, and the chunks that the client got."""
    own = OwnCompletion("m", {"id": "own", "created": 1, "model": "m"})
    relayed = ChatRelay(own, ChunkForm(frozenset({"reasoning_content"}), **form))
    reads = [sse.encode_data(orjson.dumps(each)) for each in chunks]
    sent = b"".join(map(relayed.feed, [b"".join(reads)] if at_once else reads))
    sent += relayed.feed(sse.DONE_FRAME) + relayed.finish()
    payloads = [line.removeprefix(b"data: ") for line in sent.split(b"\n\n") if line]
    return relayed, [orjson.loads(payload) for payload in payloads if payload != b"[DONE]"]


def conclude(chunks: list[Json]) -> Seen:
    """Reads chunks as clients do: they add the deltas up, and look at nothing else."""
    text = reasoning = ""
    made: dict[int, list[str]] = {}
    for each in chunks:
        for choice in each["choices"]:
            delta = choice.get("delta") or {}
            text += (delta.get("content") or "") + (delta.get("refusal") or "")
            reasoning += delta.get("reasoning_content") or ""
            for entry in delta.get("tool_calls") or ():
                name, arguments = made.get(entry["index"], ["", ""])
                function = entry["function"]
                made[entry["index"]] = [
                    name + function.get("name", ""),
                    arguments + function.get("arguments", ""),
                ]
    return Seen(text, reasoning, [(name, arguments) for name, arguments in made.values()])


def decode(chunks: list[Json], *, at_once: bool) -> list[Event]:
    numbers = count()
    decoder = ChatDecoder(lambda prefix: f"{prefix}_{next(numbers)}")
    payloads = [orjson.dumps(each) for each in chunks]
    events: list[Event] = []
    for batch in [payloads] if at_once else [[payload] for payload in payloads]:
        events += decoder.decode_payloads(batch)
    return [*events, *decoder.finish()]


def conclude_events(events: list[Event]) -> Seen:
    items: dict[int, Json] = {}
    pieces: dict[str, str] = {}
    made: dict[int, str] = {}
    for event in events:
        if isinstance(event, ItemStarted):
            items[event.index] = event.item
        elif isinstance(event, Delta):
            kind = items[event.index]["type"]
            if kind == "function_call":
                made[event.index] = made.get(event.index, "") + event.text
            else:
                pieces[kind] = pieces.get(kind, "") + event.text
    calls_made = [(items[index]["name"], arguments) for index, arguments in sorted(made.items())]
    return Seen(pieces.get("message", ""), pieces.get("reasoning", ""), calls_made)


@pytest.mark.parametrize("at_once", [False, True], ids=["frame by frame", "at once"])
@pytest.mark.parametrize(("chunks", "sees"), CASES.values(), ids=CASES)
def test_a_relayed_message_with(chunks: list[Json], sees: Seen, *, at_once: bool) -> None:
    relayed, sent = relay(chunks, at_once=at_once)
    if sees is FAILS:
        assert relayed.failed is not None
        assert relayed.failed.code == "upstream_garbled"
        return
    assert relayed.failed is None
    seen = conclude(sent)
    # The line breaks at the end of thinking are left out of translated replies only.
    assert seen._replace(reasoning=seen.reasoning.rstrip(), calls=list(seen.calls)) == sees._replace(
        calls=list(sees.calls)
    )


@pytest.mark.parametrize("at_once", [False, True], ids=["chunk by chunk", "at once"])
@pytest.mark.parametrize(("chunks", "sees"), CASES.values(), ids=CASES)
def test_a_translated_message_with(chunks: list[Json], sees: Seen, *, at_once: bool) -> None:
    if sees is FAILS:
        try:
            events = decode(chunks, at_once=at_once)
        except ProtocolViolation:
            return
        assert isinstance(events[-1], Failed)
        assert events[-1].code == "upstream_garbled"
        return
    events = decode(chunks, at_once=at_once)
    assert not isinstance(events[-1], Failed)
    seen = conclude_events(events)
    assert seen._replace(reasoning=seen.reasoning.rstrip()) == sees._replace(calls=list(sees.calls))


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}}
CITATION = {"type": "url_citation", "url_citation": {"url": "https://a.example", "start_index": 0, "end_index": 3}}


def test_images_and_citations_of_the_message_are_sent_once() -> None:
    message = {**ANSWER, "images": [IMAGE], "annotations": [CITATION]}
    _, sent = relay([*STREAMED, end(message)], at_once=False)
    assert [each["choices"][0]["delta"].get("images") for each in sent][-1] == [IMAGE]
    events = decode([*STREAMED, end(message)], at_once=False)
    assert len([event for event in events if isinstance(event, Annotated)]) == 1
    assert [event.item["type"] for event in events if isinstance(event, ItemEnded) and event.item] == [
        "image_generation_call"
    ]
    streamed = [*STREAMED, chunk({"images": [IMAGE], "annotations": [CITATION]}), end(message)]
    assert sum(1 for event in decode(streamed, at_once=False) if isinstance(event, Annotated)) == 1
    assert sum("images" in each["choices"][0]["delta"] for each in relay(streamed, at_once=False)[1]) == 1


def test_reasoning_details_are_not_repeated() -> None:
    details = [{"type": "reasoning.text", "text": "I think."}]
    chunks = [chunk({"reasoning_details": details}), end({"reasoning": "I think.", "content": "Yes"})]
    assert conclude_events(decode(chunks, at_once=False)) == Seen("Yes", "I think.", [])


@pytest.mark.parametrize(
    ("before", "arguments"), [((), '{"a":1}'), (('{"a"',), '{"a":1}'), (('{"a":1}',), '{"a":1}'), (("{}",), None)]
)
def test_a_legacy_call_is_completed_in_its_own_field(before: tuple[str, ...], arguments: str | None) -> None:
    chunks = [
        *texts(),
        *(chunk({"function_call": {"name": "f", "arguments": piece}}) for piece in before),
        end({"function_call": {"name": "f", "arguments": arguments}}, "function_call"),
    ]
    relayed, sent = relay(chunks, at_once=False, legacy_functions=True)
    assert relayed.failed is None
    pieces = [each["choices"][0]["delta"].get("function_call", {}).get("arguments", "") for each in sent]
    assert "".join(pieces) == (arguments or "{}")


def test_each_choice_has_its_own_message() -> None:
    second = {"index": 1, "delta": {"content": "Two"}, "finish_reason": None}
    chunks = [*texts("One"), {**chunk({}), "choices": [second]}, {**chunk({}), "choices": [second]}]
    ends = [end({"content": "One."}), {**end({"content": "TwoTwo!"})}]
    ends[1]["choices"][0]["index"] = 1
    relayed, sent = relay([*chunks, *ends], at_once=False, choice_count=2)
    assert relayed.failed is None
    assert conclude(sent).text == "OneTwoTwo.!"


def test_calls_after_the_finish_reason_fail_a_relay() -> None:
    relayed, _ = relay([*STREAMED, chunk({}, "stop"), chunk({}, message=WHOLE_CALL)], at_once=False)
    assert relayed.failed is not None


def test_the_input_of_a_custom_tool_is_not_compared_by_a_relay() -> None:
    entry = {"index": 0, "id": "a", "type": "custom", "custom": {"name": "run", "input": "ls"}}
    relayed, sent = relay([*calls(entry), end({"tool_calls": [entry]}, "tool_calls")], at_once=False)
    assert relayed.failed is None
    assert sum("tool_calls" in each["choices"][0]["delta"] for each in sent) == 1


def test_a_reason_after_a_first_message_counts() -> None:
    events = decode([chunk(message={"content": "The"}), chunk({"content": " answer"}, "length")], at_once=False)
    assert conclude_events(events).text == "The answer"
    assert getattr(events[-1], "reason", None) == "length"


def test_a_translated_message_after_a_first_one_and_a_delta() -> None:
    chunks = [chunk(message={"content": "The "}), chunk({"content": "answer "}), end(ANSWER)]
    assert conclude_events(decode(chunks, at_once=False)).text == "The answer is 42."


def test_the_text_of_a_first_message_counts() -> None:
    streamed = StreamedMessage(("reasoning",))
    streamed.begin_whole({"content": "The answer"})
    assert streamed.text_of("content").find_rest("The answer is 42.") == FinalRest(" is 42.")


DIFFERS = ["output.final_text=differs from the deltas"]
RAW = texts("<think>", "Hm.", "</think>", "Hello")
CLEAN = {"content": "Hello"}
ENDS: dict[str, list[Json]] = {
    "with the finish reason": [end(CLEAN)],
    "before the finish reason": [chunk({}, message=CLEAN), chunk({}, "stop")],
    "after the finish reason": [chunk({}, "stop"), chunk({}, message=CLEAN)],
}


@pytest.mark.parametrize("ends", ENDS.values(), ids=ENDS)
def test_another_form_of_the_text_is_reported_once(ends: list[Json]) -> None:
    relayed, sent = relay([*RAW, *ends], at_once=False)
    losses = [choice["losses"] for each in sent for choice in each["choices"] if "losses" in choice]
    assert (losses, relayed.unreported) == ([DIFFERS], ("output.final_text",))
    reports = [event for event in decode([*RAW, *ends], at_once=False) if isinstance(event, Opaque)]
    assert [(report.payload, report.is_output) for report in reports] == [({"type": "final_text"}, True)]


@pytest.mark.parametrize("parsing_format", ["leading_think_tags", "think_tags"])
def test_thinking_that_is_separated_is_no_other_form(parsing_format: Any) -> None:
    profile = Profile(parsing_format=parsing_format)
    ends = end({"content": "Hello", "reasoning": "Hm."})
    numbers = count()
    decoder = ChatDecoder(lambda prefix: f"{prefix}_{next(numbers)}", profile)
    events = [event for each in [*RAW, ends] for event in decoder.feed(each)] + decoder.finish()
    assert conclude_events(events) == Seen("Hello", "Hm.", [])
    assert not any(isinstance(event, Opaque) for event in events)


def test_a_relay_that_separates_thinking_reports_nothing() -> None:
    profile = Profile(parsing_format="leading_think_tags")
    relayed, sent = relay([*RAW, end({"content": "Hello", "reasoning": "Hm."})], at_once=False, profile=profile)
    assert conclude(sent) == Seen("Hello", "Hm.", [])
    assert (relayed.failed, relayed.unreported) == (None, ())


def test_other_choices_are_reported_at_the_end() -> None:
    other = {"index": 1, "delta": {"content": "Other"}, "finish_reason": None}
    both = {**chunk({"content": "Hel"}), "choices": [chunk({"content": "Hel"})["choices"][0], other]}
    relayed, sent = relay([both, {**chunk({}), "choices": [other]}, chunk({"content": "lo"}, "stop")], at_once=False)
    assert conclude(sent).text == "Hello"
    assert sent[-1]["choices"][0]["losses"] == ["output.choice=not reported"]
    assert relayed.unreported == ("output.choice",)


def test_the_arguments_of_a_legacy_call_have_no_other_form() -> None:
    call_of = {"name": "f", "arguments": '{"a":"Cafe\u0301"}'}
    final = {"function_call": {**call_of, "arguments": '{"a":"Café"}'}}
    chunks = [*texts(), chunk({"function_call": call_of}), end(final, "function_call")]
    relayed, _ = relay(chunks, at_once=False, legacy_functions=True)
    assert relayed.failed is not None
