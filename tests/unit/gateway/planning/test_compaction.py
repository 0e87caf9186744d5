"""A reply that continues after a compaction, event by event."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from gateway.planning.compaction import CompactingExchange, build_summary_turn
from providers.base import Batch, Exchange
from tests.unit.support.event_grammar import EventGrammar
from translation.lowering.input_files import FileContent
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
    Progressed,
    Started,
    Usage,
    add_usage,
)
from translation.representation.json_types import Item
from translation.representation.loss import Loss
from translation.representation.turn import Turn
from translation.responses.compaction import unseal_compaction


def message_item(role: str, text: str) -> Item:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


def message(text: str) -> list[Event]:
    start: Item = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    part = {"type": "output_text", "text": "", "annotations": []}
    return [ItemStarted(0, start), PartStarted(0, 0, part), Delta(0, 0, text), PartEnded(0, 0), ItemEnded(0)]


class Script:
    """An exchange that replays events, and records whether it was closed."""

    losses: Sequence[Loss] = ()

    def __init__(self, *batches: Sequence[Event]) -> None:
        self._batches = batches
        self.closed = False

    async def batches(self) -> AsyncGenerator[Batch, None]:
        try:
            for batch in self._batches:
                yield batch
        finally:
            self.closed = True


SUMMARY = [Started("m"), *message("they met"), Finished("stop", usage=Usage(10, 2, reasoning=1))]
TURN = Turn(
    model="m", items=[message_item("user", "hello"), message_item("assistant", "hi"), message_item("user", "on")]
)


def compacting(answer: Script, *, due: bool = True) -> tuple[CompactingExchange, list[Turn]]:
    requests: list[Turn] = []

    def say(script: Script) -> Any:
        def ask(turn: Turn) -> Exchange:
            requests.append(turn)
            return script

        return ask

    async def is_due() -> bool:
        return due

    return CompactingExchange(TURN, say(Script(SUMMARY)), say(answer), is_due), requests


async def test_the_sealed_context_names_files_that_the_turn_holds() -> None:
    data = {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,QUJD"}
    last: Item = {"type": "message", "role": "user", "content": [data]}
    turn = replace(TURN, items=[*TURN.items[:2], last])
    asked: list[Turn] = []

    def answer(sent: Turn) -> Any:
        asked.append(sent)
        return Script([Started("m"), *message("hi"), Finished("stop")])

    async def is_due() -> bool:
        return True

    files = {"file-1": FileContent("a.pdf", data["file_data"], is_image=False, text=None)}
    exchange = CompactingExchange(turn, lambda _: Script(SUMMARY), answer, is_due, files)
    events = await played(exchange)
    assert isinstance(events[1], ItemStarted)
    content = unseal_compaction(events[1].item["encrypted_content"], "input")
    assert content is not None
    assert content.rest[0]["content"] == [{"type": "input_file", "filename": "a.pdf", "file_id": "file-1"}]
    assert asked[0].items[-1] == last, "the model reads the file itself"


async def played(exchange: CompactingExchange) -> list[Event]:
    return [event async for batch in exchange.batches() for event in batch]


async def test_every_event_moves_by_one_item() -> None:
    search: Item = {"id": "ws_1", "type": "web_search_call", "status": "in_progress"}
    opening, *rest = message("hi")
    cited = Annotated(0, 0, {"type": "url_citation"})
    answer: list[list[Event]] = [
        [Started("m", "upstream"), Noted(facts={"service_tier": "flex"}), Opaque("responses", {"type": "ping"})],
        [opening, rest[0], rest[1], cited, *rest[2:]],
        [ItemStarted(1, search), Progressed(1, "searching"), Opaque("responses", {}, 1), ItemEnded(1)],
        [Finished("stop", usage=Usage(3, 1))],
    ]
    exchange, asked = compacting(Script(*answer))
    events = await played(exchange)
    grammar = EventGrammar()
    grammar.check(events)
    grammar.finish()
    assert [event.index for event in events if hasattr(event, "index")] == [
        *(0, 0),
        None,
        *(1 for _ in range(6)),
        *(2 for _ in range(4)),
    ]
    assert isinstance(events[1], ItemStarted)
    assert events[1].item["type"] == "compaction"
    assert isinstance(events[-1], Finished)
    assert events[-1].usage == Usage(13, 3, reasoning=1)
    assert [turn.items[-1]["content"][0]["text"][:5] for turn in asked] == ["Write", "on"]


async def test_a_failure_counts_the_tokens_before_it() -> None:
    exchange, _ = compacting(Script([Started("m")], [Failed("server_error", "broke", usage=Usage(1, 1))]))
    failed = (await played(exchange))[-1]
    assert isinstance(failed, Failed)
    assert failed.usage == Usage(11, 3, reasoning=1)


async def test_a_reply_without_compaction_is_unchanged() -> None:
    answer = Script([Started("m"), *message("hi"), Finished("stop")])
    exchange, asked = compacting(answer, due=False)
    assert len(await played(exchange)) == 7
    assert asked == [TURN]


async def test_closing_closes_the_open_sources() -> None:
    answer = Script([Started("m"), *message("hi")], [Finished("stop")])
    exchange, _ = compacting(answer)
    batches = exchange.batches()
    await anext(batches)
    await anext(batches)
    await batches.aclose()
    assert answer.closed


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (None, None, None),
        (Usage(1, 2), None, Usage(1, 2)),
        (None, Usage(1, 2), Usage(1, 2)),
        (Usage(1, 2, cache_read=1), Usage(3, None, cache_write=0), Usage(4, 2, cache_read=1, cache_write=0)),
    ],
)
def test_unreported_usage_stays_unknown(one: Usage | None, other: Usage | None, expected: Usage | None) -> None:
    assert add_usage(one, other) == expected


RUNNING = {
    "chat_template_kwargs": {"enable_thinking": False},
    "inference_geo": "eu",
    "safety_settings": [],
    "num_ctx": 8192,
    "keep_alive": "1h",
}
"""Parameters about where and how a model runs."""


def test_a_summary_is_not_limited_by_the_parameters_of_the_answer() -> None:
    turn = Turn(
        model="m",
        items=[],
        instructions="Be brief.",
        tools=[{"type": "function", "name": "f"}],
        tool_choice="required",
        sampling={"stop": ["a"], "user": "u"},
        max_output_tokens=16,
        text_format={"type": "json_object"},
        extra={"guided_json": {}, **RUNNING},
    )
    asked = build_summary_turn(turn, [message_item("user", "hello")])
    assert (asked.instructions, asked.sampling) == ("Be brief.", {"user": "u"})
    assert (asked.tools, asked.tool_choice, asked.max_output_tokens, asked.text_format) == ((), None, None, None)
    assert asked.extra == RUNNING
    assert len(asked.items) == 2
