"""Asks again for an answer if a reply has none, for models with `fix_empty_final: retry`."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final

import structlog

from providers.base import Batch, Exchange
from translation.representation.events import (
    Delta,
    Event,
    Failed,
    Finished,
    ItemEnded,
    ItemStarted,
    Noted,
    Started,
    Usage,
    add_usage,
)
from translation.representation.item_indexes import shift_index
from translation.representation.json_types import Item
from translation.representation.turn import Turn

_log = structlog.get_logger(__name__)


_REMINDER: Final = "Your last reply had no answer. Write the answer for the user now."
_REMINDER_WITH_TOOLS: Final = (
    "Your last reply had neither an answer nor a valid tool call. Write the answer for the user now, or call a tool."
)


def ask_for_answer(turn: Turn) -> Turn:
    """Returns the turn of the second request: the first one, and a message of the user that asks for the answer.

    The same request again would end the same way at temperature 0. A turn whose last message is the beginning of the
    answer stays as it is, because the answer would not continue that message otherwise.
    """
    if turn.items and turn.items[-1].get("role") == "assistant":
        return turn
    text = _REMINDER_WITH_TOOLS if turn.tools else _REMINDER
    reminder: Item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
    return replace(turn, items=[*turn.items, reminder])


class ReplyJoiner:
    """Joins the events of a reply without an answer, and of the reply to the second request, to one reply.

    A reply has an answer if it has text that is not blank, a call, or any other item but reasoning and messages, or
    if it did not end with the reason `stop`. The end of a first reply without an answer is held back:
    `needs_retry` is then True, and the events of the second continue it. The token counts of both are added up.
    """

    def __init__(self) -> None:
        self.needs_retry = False
        """Whether the first reply has ended without an answer."""
        self._has_answer = False
        self._reasoning_indexes: set[int] = set()
        self._item_count = 0
        self._offset = 0
        """The number of items of the first reply. The items of the second follow."""
        self._usage: Usage | None = None
        """The token counts of the first reply, once the second has begun."""

    def feed(self, batch: Sequence[Event]) -> list[Event]:
        """Returns the events to send for the next batch of either reply, possibly none."""
        return [joined for event in batch if (joined := self._join(event)) is not None]

    def _join(self, event: Event) -> Event | None:
        match event:
            case Started():
                return None if self.needs_retry else event
            case ItemStarted():
                self._item_count += 1
                if event.item["type"] == "reasoning":
                    self._reasoning_indexes.add(event.index)
                elif event.item["type"] != "message":
                    self._has_answer = True
            case Delta():
                if event.text.strip() and event.index not in self._reasoning_indexes:
                    self._has_answer = True
            case ItemEnded(item=dict(item)) if item["type"] == "message" and item["content"]:
                self._has_answer = True
            case Finished():
                return self._finish(event)
            case Noted() | Failed() if self.needs_retry:
                return replace(event, usage=add_usage(self._usage, event.usage)) if event.usage else event
        return shift_index(event, self._offset) if self._offset else event

    def _finish(self, event: Finished) -> Finished | None:
        if not self.needs_retry and not self._has_answer and event.reason == "stop":
            self.needs_retry = True
            self._usage, self._offset = event.usage, self._item_count
            self._reasoning_indexes.clear()
            return None
        if not self.needs_retry:
            return event
        response = event.response and {key: value for key, value in event.response.items() if key != "output"}
        return replace(event, usage=add_usage(self._usage, event.usage), response=response)


class RetriedExchange:
    """An exchange that requests a second reply if the first has no answer. Its own reply joins both.

    `make_second` is called once the first has ended so. Thinking is sent as it is generated, so the client gets the
    thinking of both. Errors of the second are raised.
    """

    def __init__(self, first: Exchange, make_second: Callable[[], Exchange]) -> None:
        self._make_second = make_second
        self._first = first
        self.losses: Final = self._first.losses

    async def batches(self) -> AsyncGenerator[Batch, None]:
        joiner = ReplyJoiner()
        async with aclosing(self._first.batches()) as batches:
            async for batch in batches:
                if events := joiner.feed(batch):
                    yield events
        if not joiner.needs_retry:
            return
        _log.info("empty_reply_retried")
        async with aclosing(self._make_second().batches()) as batches:
            async for batch in batches:
                if events := joiner.feed(batch):
                    yield events
