"""A turn without an answer is generated once more, where a model is configured so."""

from typing import Any

import pytest

from gateway.planning.empty_answers import ReplyJoiner, RetriedExchange, ask_for_answer
from providers.base import Batch, Exchange
from tests.unit.support.event_grammar import EventGrammar
from tests.unit.support.translator_drivers import collect
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
from translation.representation.items import (
    new_function_call,
    new_message,
    new_output_text,
    new_reasoning,
    new_reasoning_text,
)
from translation.representation.json_types import Item, Json
from translation.representation.turn import Turn


def block(index: int, kind: str, text: str) -> list[Event]:
    item = new_reasoning(f"rs_{index}{text}") if kind == "reasoning" else new_message(f"msg_{index}{text}")
    part = new_reasoning_text() if kind == "reasoning" else new_output_text()
    return [
        ItemStarted(index, item),
        PartStarted(index, 0, part),
        Delta(index, 0, text),
        PartEnded(index, 0),
        ItemEnded(index),
    ]


def attempt(*events: Event, reason: Any = "stop", **ending: Any) -> list[Event]:
    return [Started("m"), *events, Finished(reason, **ending)]


class Attempts:
    """A factory of exchanges with these replies, one after the other."""

    def __init__(self, *replies: list[Event] | Exception) -> None:
        self.replies = list(replies)
        self.losses: list[Any] = []

    def make(self) -> Exchange:
        return self

    async def batches(self) -> Any:
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        for event in reply:
            yield [event]


async def run(attempts: Attempts) -> list[Event]:
    events: list[Event] = []
    batch: Batch
    async for batch in RetriedExchange(attempts.make(), attempts.make).batches():
        events += batch
    grammar = EventGrammar()
    grammar.check(events)
    grammar.finish()
    return events


CALL = new_function_call("fc", call_id="c", name="f")
ANSWER = attempt(*block(0, "text", "Yes"), usage=Usage(input=3, output=2))
EMPTY = {
    "nothing": attempt(),
    "thinking": attempt(*block(0, "reasoning", "Hm.")),
    "blank text": attempt(*block(0, "text", " \n")),
    "an empty message": attempt(
        ItemStarted(0, new_message("msg_0")), ItemEnded(0, {**new_message("msg_0"), "content": []})
    ),
}
ANSWERS = {
    "text": attempt(*block(0, "text", "No")),
    "a call": attempt(
        ItemStarted(0, new_function_call("fc", call_id="c", name="f")),
        Delta(0, None, "{}"),
        PartEnded(0, None),
        ItemEnded(0),
    ),
    "a whole message": attempt(
        ItemStarted(0, new_message("msg_0")),
        ItemEnded(0, {**new_message("msg_0"), "content": [{"type": "output_text", "text": "No"}]}),
    ),
    "a cut reply": attempt(*block(0, "reasoning", "Hm."), reason="length"),
    "a failure": [Started("m"), Failed("upstream_error", "no")],
}


@pytest.mark.parametrize("first", EMPTY.values(), ids=EMPTY)
async def test_a_reply_without_an_answer_is_generated_once_more(first: list[Event]) -> None:
    attempts = Attempts(first, ANSWER)
    items = collect(await run(attempts))
    assert items[-1]["content"][0]["text"] == "Yes"
    assert len(items) == 1 + sum(isinstance(event, ItemStarted) for event in first)
    assert attempts.replies == []


@pytest.mark.parametrize("first", ANSWERS.values(), ids=ANSWERS)
async def test_an_answer_is_not_generated_again(first: list[Event]) -> None:
    attempts = Attempts(first, ANSWER)
    assert await run(attempts) == first
    assert attempts.replies == [ANSWER]


async def test_a_second_empty_reply_is_the_end() -> None:
    events = await run(Attempts(EMPTY["thinking"], attempt(*block(0, "reasoning", "Hm?")), ANSWER))
    assert [item["content"][0]["text"] for item in collect(events)] == ["Hm.", "Hm?"]
    assert events[-1] == Finished("stop")


async def test_token_counts_are_those_of_both() -> None:
    first = attempt(*block(0, "reasoning", "Hm."), usage=Usage(input=3, output=4, reasoning=4))
    noted = Noted(Usage(input=3, output=1))
    facts = Noted(facts={"service_tier": "default"})
    opaque = [Opaque("responses", {}), Opaque("responses", {}, 0)]
    second = [
        ANSWER[0],
        noted,
        facts,
        *ANSWER[1:-1],
        *opaque,
        Finished("stop", usage=Usage(input=3, output=2), response={"id": "r", "output": []}),
    ]
    events = await run(Attempts(first, second))
    assert Noted(Usage(input=6, output=5, reasoning=4)) in events
    assert facts in events
    assert [event.index for event in events if isinstance(event, Opaque)] == [None, 1]
    assert events[-1] == Finished("stop", usage=Usage(input=6, output=6, reasoning=4), response={"id": "r"})


async def test_a_failure_of_the_second_attempt_is_the_failure_of_the_turn() -> None:
    with pytest.raises(ValueError, match="busy"):
        await run(Attempts(EMPTY["nothing"], ValueError("busy")))


def test_the_end_of_an_empty_attempt_is_held_back() -> None:
    joiner = ReplyJoiner()
    assert joiner.feed(EMPTY["nothing"]) == [Started("m")]
    assert joiner.needs_retry


QUESTION: Item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
RESULT: Item = {"type": "function_call_output", "call_id": "c", "output": "3"}
BEGUN: Item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes, "}]}


@pytest.mark.parametrize("last", [QUESTION, RESULT], ids=["a question", "a result"])
@pytest.mark.parametrize("tools", [(), ({"type": "function", "name": "f"},)], ids=["no tools", "tools"])
def test_the_second_attempt_asks_for_the_answer(last: Item, tools: tuple[Json, ...]) -> None:
    first = Turn("m", [QUESTION, last], tools=tools)
    second = ask_for_answer(first)
    *before, reminder = second.items
    assert before == first.items
    assert reminder["role"] == "user"
    assert ("tool" in reminder["content"][0]["text"]) == bool(tools)
    assert second.tools == tools


def test_the_beginning_of_an_answer_remains_the_last_message() -> None:
    for turn in (Turn("m", [QUESTION, BEGUN]), Turn("m", [BEGUN])):
        assert ask_for_answer(turn) is turn


def test_a_turn_without_items_is_asked_too() -> None:
    assert len(ask_for_answer(Turn("m", [], instructions="Speak.")).items) == 1
