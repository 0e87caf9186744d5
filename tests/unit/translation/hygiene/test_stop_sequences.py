"""A reply ends before a stop sequence of its answer, however the text is cut, and nothing else ends there."""

from collections.abc import Sequence

import pytest

from tests.unit.support.event_grammar import EventGrammar
from translation.hygiene.stop_sequences import StopSequenceCutter
from translation.representation import items
from translation.representation.events import (
    STOP_SEQUENCE_FACT,
    Annotated,
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
    Usage,
)
from translation.representation.json_types import Json

TEXT = items.new_output_text()
REFUSAL = items.new_refusal()
THOUGHT = items.new_reasoning_text()


def message(index: int, *pieces: str, part: Json = TEXT) -> list[Event]:
    texts = [Delta(index, 0, piece) for piece in pieces]
    started = ItemStarted(index, items.new_message(f"msg_{index}"))
    return [started, PartStarted(index, 0, part), *texts, PartEnded(index, 0), ItemEnded(index)]


def cut(events: Sequence[Event], *, at_once: bool, sequences: Sequence[str] = ("END", "\n\n")) -> list[Event]:
    cutter = StopSequenceCutter(sequences)
    grammar = EventGrammar()
    out: list[Event] = []
    for batch in [events] if at_once else [[event] for event in events]:
        out += cutter.feed(batch)
        if cutter.is_met:
            break
    grammar.check(out)
    grammar.finish()
    return out


def text_of(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Delta))


def wrap(*events: Event) -> list[Event]:
    return [Started("m"), *events, Noted(Usage(output=9), {"tier": "x"}), Finished("stop", usage=Usage(output=9))]


CUTS: dict[str, tuple[tuple[str, ...], str, str | None]] = {
    "none": (("One", " E", "N"), "One EN", None),
    "in one delta": (("One END two",), "One ", "END"),
    "cut across deltas": (("One E", "N", "D two"), "One ", "END"),
    "begun twice": (("One EEN", "D"), "One E", "END"),
    "at the beginning": (("END",), "", "END"),
    "the first of two": (("One\n", "\nEND"), "One", "\n\n"),
    "held back and no sequence": (("a\n", "b"), "a\nb", None),
}


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("case", CUTS)
def test_an_answer_ends_before_the_sequence(case: str, at_once: bool) -> None:
    pieces, expected, sequence = CUTS[case]
    events = cut(wrap(*message(0, *pieces)), at_once=at_once)
    assert text_of(events) == expected
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert finished.reason == "stop"
    [facts] = [event.facts or {} for event in events if isinstance(event, Noted)]
    assert facts.get(STOP_SEQUENCE_FACT) == sequence
    assert (finished.usage is None) == (sequence is not None and not at_once)


def test_reasoning_refusals_and_calls_do_not_end_the_reply() -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": ""}
    reasoning = ItemStarted(0, items.new_reasoning("rs_1"))
    events: list[Event] = [
        *(reasoning, PartStarted(0, 0, THOUGHT), Delta(0, 0, "END"), PartEnded(0, 0), ItemEnded(0)),
        *message(1, "END", part=REFUSAL),
        *(ItemStarted(2, call), Delta(2, None, "END"), PartEnded(2, None), ItemEnded(2)),
    ]
    assert text_of(cut(wrap(*events), at_once=False)) == "ENDENDEND"


def test_a_call_before_the_sequence_stays_a_call() -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"}
    events = cut(wrap(ItemStarted(0, call), ItemEnded(0), *message(1, "END")), at_once=True)
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "tool_calls"


def test_open_items_beside_the_answer_are_incomplete() -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": ""}
    started, part, *_ = message(0)
    events = cut(wrap(started, part, ItemStarted(1, call), Delta(1, None, "{"), Delta(0, 0, "a END")), at_once=False)
    assert [event.status for event in events if isinstance(event, ItemEnded)] == ["completed", "incomplete"]


def test_probabilities_stay_with_their_text() -> None:
    tokens = [{"token": text, "logprob": -1.0, "bytes": list(text.encode())} for text in ("One", " E", "ND")]
    deltas: list[Event] = [Delta(0, 0, str(token["token"]), [token]) for token in tokens]
    started, part, *ended = message(0)
    cut_events = cut(wrap(started, part, *deltas, *ended), at_once=False)
    assert [event.logprobs for event in cut_events if isinstance(event, Delta)] == [[tokens[0]], [tokens[1]]]
    kept = cut(wrap(started, part, *deltas[:2], *ended), at_once=False)
    assert [token for event in kept if isinstance(event, Delta) for token in event.logprobs or ()] == tokens[:2]


@pytest.mark.parametrize("part", [TEXT, REFUSAL])
def test_a_reply_that_fails_has_the_text_that_was_held_back(part: Json) -> None:
    started, part_started, delta, *_ = message(0, "One EN", part=part)
    events = cut([Started("m"), started, part_started, delta, Failed("code", "why")], at_once=False)
    assert text_of(events) == "One EN"
    assert isinstance(events[-1], Failed)


def test_only_texts_of_answers_are_inspected() -> None:
    cutter = StopSequenceCutter(["END"])
    cutter.feed([Started("m"), *message(0, "a")[:3], Annotated(0, 0, {}), ItemStarted(1, items.new_reasoning("rs"))])
    cutter.feed([PartStarted(1, 0, THOUGHT)])
    assert cutter.inspects((0, 0))
    assert not cutter.inspects((1, 0))
    assert not cutter.inspects((2, None))
