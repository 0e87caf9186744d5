"""Makes a second attempt at a turn that ended without an answer, for models with `fix_empty_final: retry`."""

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

_log = structlog.get_logger(__name__)


class AttemptJoiner:
    """Joins the events of two attempts to one reply.

    An attempt has an answer if it has text that is not blank, a call, or any other item but reasoning and messages, or
    if it did not end with the reason `stop`. The end of a first attempt without an answer is held back: `needs_retry`
    is then True, and the events of the second attempt continue the reply. The token counts of both are added up.
    """

    def __init__(self) -> None:
        self.needs_retry = False
        """Whether the first attempt has ended without an answer."""
        self._has_answer = False
        self._reasoning_indexes: set[int] = set()
        self._item_count = 0
        self._offset = 0
        """The number of items of the first attempt. The items of the second follow."""
        self._usage: Usage | None = None
        """The token counts of the first attempt, once the second has begun."""

    def feed(self, batch: Sequence[Event]) -> list[Event]:
        """Returns the events to send for the next batch of either attempt, possibly none."""
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
    """An exchange with a second attempt if the first reply has no answer. The reply joins both attempts.

    Thinking is sent as it is generated, so the client gets the thinking of both. Errors of the second are raised.
    """

    def __init__(self, make_exchange: Callable[[], Exchange]) -> None:
        self._make_exchange = make_exchange
        self._first = make_exchange()
        self.losses: Final = self._first.losses

    async def batches(self) -> AsyncGenerator[Batch, None]:
        joiner = AttemptJoiner()
        async with aclosing(self._first.batches()) as batches:
            async for batch in batches:
                if events := joiner.feed(batch):
                    yield events
        if not joiner.needs_retry:
            return
        _log.info("empty_reply_retried")
        async with aclosing(self._make_exchange().batches()) as batches:
            async for batch in batches:
                if events := joiner.feed(batch):
                    yield events
