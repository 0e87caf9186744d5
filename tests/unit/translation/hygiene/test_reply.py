"""Normalizes the calls of a reply."""

from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from tests.unit.support.event_grammar import EventGrammar
from tests.unit.support.translator_drivers import collect, counting_ids
from translation.hygiene.reply import ReplyNormalizer
from translation.parsers.text_calls import TOOL_WARNINGS
from translation.representation import items
from translation.representation.delta_runs import TextKey
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
from translation.representation.turn import Turn

STARTED, CALLED, STOPPED = Started("m"), Finished("tool_calls"), Finished("stop")
OBJECT = '{"a":1}'


def make_normalizer(*past: str, **profile: Any) -> ReplyNormalizer:
    history: list[Item] = [{"type": "function_call", "call_id": call_id} for call_id in past]
    return ReplyNormalizer(Turn(model="m", items=history), Profile(**profile), counting_ids())


def normalize(stage: ReplyNormalizer, events: Sequence[Event], *, ends: bool = True) -> list[Event]:
    """Returns the events of a normalizer, fed one by one and all at once, after checking their grammar."""
    out = [event for each in events for event in stage.feed([each])]
    grammar = EventGrammar()
    grammar.check(out)
    if ends:
        grammar.finish()
    return out


def call(index: int, call_id: str, *texts: str, name: str = "f", ended: ItemEnded | None = None) -> list[Event]:
    return [
        ItemStarted(index, items.new_function_call(f"fc_{index}", call_id=call_id, name=name)),
        *(Delta(index, None, text) for text in texts),
        PartEnded(index, None),
        ended or ItemEnded(index),
    ]


def message_events(index: int, *texts: str) -> list[Event]:
    return [
        ItemStarted(index, items.new_message(f"msg_{index}")),
        PartStarted(index, 0, items.new_output_text()),
        *(Delta(index, 0, text) for text in texts),
        PartEnded(index, 0),
        ItemEnded(index),
    ]


def thought(index: int, text: str = "", **final: Any) -> list[Event]:
    start = items.new_reasoning(f"rs_{index}")
    inner: list[Event] = []
    if text:
        inner = [PartStarted(index, 0, items.new_reasoning_text()), Delta(index, 0, text), PartEnded(index, 0)]
    return [ItemStarted(index, start), *inner, ItemEnded(index, {**start, **final} if final else None)]


def calls_in(events: Sequence[Event]) -> list[tuple[str, str]]:
    return [(item["call_id"], item["arguments"]) for item in collect(events) if item["type"] == "function_call"]


def warnings_in(events: Sequence[Event]) -> list[Json]:
    return [
        warning
        for event in events
        if isinstance(event, Noted)
        for warning in (event.facts or {}).get(TOOL_WARNINGS, ())
    ]


def test_a_reply_without_defects_is_unchanged() -> None:
    events: list[Event] = [
        STARTED,
        *thought(0, "hm"),
        *message_events(1, "a", "b"),
        Opaque("chat", {}),
        *call(2, "c", "", '{"a"', ":1}"),
        Noted(usage=Usage()),
        CALLED,
    ]
    assert [event for event in normalize(make_normalizer("b"), events) if event != Delta(2, None, "")] == [
        event for event in events if event != Delta(2, None, "")
    ]


def test_a_batch_of_text_is_the_same_object() -> None:
    stage = make_normalizer()
    stage.feed(message_events(0, "a")[:2])
    batch = [Delta(0, 0, "b"), Delta(0, 0, "c")]
    assert stage.feed(batch) is batch


class Following:
    """A stage that adds an event to every batch."""

    def feed(self, batch: Sequence[Event]) -> Sequence[Event]:
        return [*batch, STARTED]

    def delta_observers(self, _text_key: TextKey) -> None:
        return None


def test_the_next_stage_gets_every_batch() -> None:
    stage = ReplyNormalizer(Turn(model="m", items=[]), Profile(), counting_ids(), Following())
    assert stage.feed([Delta(0, 0, "a")]) == [Delta(0, 0, "a"), STARTED]
    assert stage.feed([STOPPED]) == [STOPPED, STARTED]


def test_an_id_of_the_history_is_given_to_no_other_call() -> None:
    ended = ItemEnded(1, {**items.new_function_call("fc_1", call_id="x", name="f"), "arguments": OBJECT})
    events = [STARTED, *call(0, "x", OBJECT), *call(1, "x", OBJECT, ended=ended), *call(2, "tc_1", OBJECT), CALLED]
    out = normalize(make_normalizer("x", "tc_1"), events)
    assert calls_in(out) == [("x__2", OBJECT), ("x__3", OBJECT), ("tc_2", OBJECT)]


def test_a_signature_of_a_call_gets_its_new_id() -> None:
    details = [{"type": "gemini.call", "call_id": "x", "signature": "s"}, "odd", {"type": "other"}]
    events = [STARTED, *thought(0, details=details), *call(1, "x", OBJECT), *call(2, "x", OBJECT), CALLED]
    out = normalize(make_normalizer("x"), events)
    assert [call_id for call_id, _ in calls_in(out)] == ["x__2", "x__3"]
    assert collect(out)[0]["details"] == [{**details[0], "call_id": "x__2"}, *details[1:]]  # type: ignore[dict-item]
    assert details[0]["call_id"] == "x", "what came is not changed"  # type: ignore[index]


FENCED: dict[str, tuple[Sequence[str], str]] = {
    "a fence around an object": (["```json\n", OBJECT, "\n```"], OBJECT),
    "a fence in pieces": ([" ", "`", "``", "\n" + OBJECT, "\n`", "``\n"], OBJECT),
    "a fence around no object": (["```json\n", "[1]", "\n```"], "```json\n[1]\n```"),
    "a fence that is not closed": (["```json\n", OBJECT], "```json\n" + OBJECT),
    "blanks before an object": ([" ", "\n", OBJECT], " \n" + OBJECT),
    "nothing but blanks": ([" ", "\n"], " \n"),
}


@pytest.mark.parametrize(("texts", "expected"), FENCED.values(), ids=FENCED)
def test_arguments_are_taken_out_of_their_fence(texts: Sequence[str], expected: str) -> None:
    assert calls_in(normalize(make_normalizer(), [STARTED, *call(0, "a", *texts), CALLED])) == [("a", expected)]


def test_final_arguments_of_the_upstream_are_taken_out_of_their_fence_too() -> None:
    fenced = f"```\n{OBJECT}\n```"
    start, *_ = call(0, "a")
    final = {**items.new_function_call("fc_0", call_id="a", name="f"), "arguments": fenced}
    events: list[Event] = [
        STARTED,
        start,
        Delta(0, None, fenced),
        PartEnded(0, None, {"arguments": fenced}),
        ItemEnded(0, final),
        CALLED,
    ]
    out = normalize(make_normalizer(), events)
    assert out[2:5] == [
        Delta(0, None, OBJECT),
        PartEnded(0, None, {"arguments": OBJECT}),
        ItemEnded(0, {**final, "arguments": OBJECT}),
    ]
    assert warnings_in(out) == []


def test_arguments_that_began_with_their_call_are_read_with_it() -> None:
    start = {**items.new_function_call("fc_0", call_id="a", name="f"), "arguments": '{"a"'}
    events: list[Event] = [
        STARTED,
        ItemStarted(0, start),
        Delta(0, None, ":1}"),
        PartEnded(0, None),
        ItemEnded(0),
        CALLED,
    ]
    out = normalize(make_normalizer(), events)
    assert (calls_in(out), warnings_in(out)) == ([("a", OBJECT)], [])


FAULTY = {
    '{"a"': "the arguments are not valid JSON",
    "[1]": "the arguments are not an object",
    '"text"': "the arguments are not an object",
    '{"a":"' + "x" * 50 + '"}': "the arguments are longer than 40 bytes",
}


@pytest.mark.parametrize(("arguments", "why"), FAULTY.items())
def test_unreadable_arguments_are_preserved_and_reported(arguments: str, why: str) -> None:
    out = normalize(make_normalizer(max_tool_args_bytes=40), [STARTED, *call(0, "a", *arguments), CALLED])
    assert calls_in(out) == [("a", arguments)]
    assert out[-2:] == [Noted(facts={TOOL_WARNINGS: [{"name": "f", "why": why}]}), CALLED]


CUT = {**items.new_function_call("fc_0", call_id="a", name="f"), "arguments": '{"a"', "status": "incomplete"}


@pytest.mark.parametrize("ended", [ItemEnded(0, None, "incomplete"), ItemEnded(0, CUT)])
def test_a_truncated_call_causes_no_warning(ended: ItemEnded) -> None:
    out = normalize(make_normalizer(), [STARTED, *call(0, "a", '{"a"', ended=ended), Finished("length")])
    assert warnings_in(out) == []


@pytest.mark.parametrize("profile", [{"tool_parser": "hermes"}, {"text_tool_calls": "hermes"}])
def test_calls_out_of_text_were_judged_before(profile: Json) -> None:
    noted = Noted(facts={TOOL_WARNINGS: ["before"], "service_tier": "flex"})
    events = [STARTED, *call(0, "a", "`", "["), noted, Noted(facts={TOOL_WARNINGS: ["last"]}), CALLED]
    out = normalize(make_normalizer(**profile), events)
    assert calls_in(out) == [("a", "`[")]
    assert out[-3:] == [Noted(facts={"service_tier": "flex"}), Noted(facts={TOOL_WARNINGS: ["before", "last"]}), CALLED]


def test_freeform_input_is_not_checked() -> None:
    start = items.new_custom_tool_call("ctc_0", call_id="a", name="f")
    for final in (None, {**start, "input": "```"}):
        events: list[Event] = [
            STARTED,
            ItemStarted(0, start),
            Delta(0, None, "```"),
            PartEnded(0, None),
            ItemEnded(0, final),
            CALLED,
        ]
        assert normalize(make_normalizer(), events) == events


def test_calls_over_the_limit_are_left_out_without_a_gap() -> None:
    response = {"status": "completed", "output": ["theirs"]}
    events: list[Event] = [
        STARTED,
        *call(0, "a", OBJECT),
        *call(1, "b", OBJECT, name="g"),
        Opaque("responses", {}, 1),
        *message_events(2, "x")[:3],
        Delta(2, 0, "y"),
        Annotated(2, 0, {"type": "url_citation"}),
        Opaque("responses", {}, 2),
        *message_events(2)[2:],
        *call(3, "c", OBJECT),
        Finished("tool_calls", response=response),
    ]
    out = normalize(make_normalizer(max_tool_calls_per_turn=1), events)
    assert [item["type"] for item in collect(out)] == ["function_call", "message"]
    assert collect(out)[1]["content"][0]["text"] == "xy"
    assert [event.index for event in out if isinstance(event, Opaque | Annotated)] == [1, 1]
    why = "the call exceeds the limit of calls per turn (1)"
    assert warnings_in(out) == [{"name": "g", "why": why}, {"name": "f", "why": why}]
    assert out[-1] == Finished("tool_calls", response={"status": "completed"})


def test_a_call_after_a_dropped_one_keeps_its_own_index() -> None:
    interleaved = [event for pair in zip(call(0, "a", OBJECT), call(1, "b", OBJECT), strict=True) for event in pair]
    out = normalize(make_normalizer(max_tool_calls_per_turn=1), [STARTED, *interleaved, *thought(2, "hm"), CALLED])
    assert calls_in(out) == [("a", OBJECT)]
    assert [event.index for event in out if isinstance(event, ItemEnded)] == [0, 1]


def test_buffered_text_is_sent_before_a_failure() -> None:
    failed = Failed("upstream_truncated", "broke off")
    out = normalize(make_normalizer(), [STARTED, *call(0, "a", "```json\n", "{")[:3], failed], ends=False)
    assert out[-2:] == [Delta(0, None, "```json\n{"), failed]


EMPTY: dict[str, tuple[Sequence[Event], str]] = {
    "nothing at all": ([], "The model ended its turn without an answer."),
    "nothing but thoughts": (thought(0, " so\n"), "so"),
    "an empty message": (message_events(0), "The model ended its turn without an answer."),
    "a message of blanks": (message_events(0, " ", "\n"), "The model ended its turn without an answer."),
}


@pytest.mark.parametrize(("events", "text"), EMPTY.values(), ids=EMPTY)
def test_an_empty_answer_gets_a_message(events: Sequence[Event], text: str) -> None:
    out = normalize(
        make_normalizer(fix_empty_final=True), [STARTED, *events, Finished("stop", response={"output": [], "id": "r"})]
    )
    last = collect(out)[-1]
    assert (last["type"], last["content"][0]["text"]) == ("message", text)
    assert out[-1] == Finished("stop", response={"id": "r"})


SOUND: dict[str, tuple[Sequence[Event], Event]] = {
    "text": ([*thought(0, "hm"), *message_events(1, "a", "b")], STOPPED),
    "a message that came whole": (
        [
            ItemStarted(0, items.new_message("msg_0")),
            ItemEnded(0, {**items.new_message("msg_0"), "content": [{"type": "refusal", "refusal": "No."}]}),
        ],
        STOPPED,
    ),
    "a call": (call(0, "a", OBJECT), CALLED),
    "an image": ([ItemStarted(0, {"type": "image_generation_call", "id": "ig"}), ItemEnded(0)], STOPPED),
    "an answer that was cut": (thought(0, "hm"), Finished("length")),
    "a failure": ([], Failed("upstream_error", "no")),
}


@pytest.mark.parametrize(("events", "end"), SOUND.values(), ids=SOUND)
def test_other_answers_get_no_message(events: Sequence[Event], end: Event) -> None:
    given = [STARTED, *events, end]
    assert normalize(make_normalizer(fix_empty_final=True), given) == given


def test_an_empty_answer_stays_empty_unless_it_is_to_be_fixed() -> None:
    assert normalize(make_normalizer(), [STARTED, STOPPED]) == [STARTED, STOPPED]


def test_warnings_can_be_serialized() -> None:
    out = normalize(make_normalizer(), [STARTED, *call(0, "a", "["), CALLED])
    assert orjson.dumps(warnings_in(out))


def test_text_deltas_may_bypass_the_stage_until_text_must_be_inspected() -> None:
    assert make_normalizer().delta_observers((0, 0)) == ()
    assert make_normalizer(fix_empty_final=True).delta_observers((0, 0)) is None


def test_argument_deltas_bypass_the_stage_once_they_have_no_fence() -> None:
    stage = make_normalizer()
    assert stage.delta_observers((0, None)) is None, "there is no call yet"
    begin, first, *_ = call(0, "x", "{", "}")
    stage.feed([begin])
    assert stage.delta_observers((0, None)) is None
    stage.feed([first])
    observers = stage.delta_observers((0, None))
    assert observers is not None
    for observe in observers:
        observe("not JSON")
    (warned, _) = [*stage.feed([PartEnded(0, None), ItemEnded(0)]), *stage.feed([CALLED])][-2:]
    assert isinstance(warned, Noted), "what passed by was seen"


def test_arguments_parsed_from_text_bypass_the_stage() -> None:
    stage = make_normalizer(tool_parser="hermes")
    stage.feed(call(0, "x", "{")[:2])
    assert stage.delta_observers((0, None)) == ()


def test_the_next_stage_decides_too() -> None:
    stage = ReplyNormalizer(Turn(model="m", items=[]), Profile(), counting_ids(), Following())
    assert stage.delta_observers((0, 0)) is None
