"""Compaction: the model itself sums up what was said, and goes on from the summary."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final, NamedTuple

from gateway.errors import CompactionFailed, TurnFailed
from gateway.planning.truncation import ExchangeFactory
from providers.base import Batch
from providers.new_id import new_id
from translation.errors import InvalidRequest
from translation.hygiene.item_groups import CompactionInput, split_for_compaction
from translation.representation.collector import TurnCollector
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
)
from translation.representation.json_types import Item
from translation.representation.loss import Loss
from translation.representation.turn import Turn
from translation.responses.compaction import SUMMARY_PROMPT, CompactionContent, compaction_item, summary_message

_SUMMARY_SAMPLING = ("service_tier", "user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention")
"""Parameters of the client's turn that its summary shares: who asks and at what price, nothing of how to answer."""


_SUMMARY_EXTRA = (
    "chat_template_kwargs",
    "provider",
    "cache_salt",
    "inference_geo",
    "safety_settings",
    "safetySettings",
    "num_ctx",
    "keep_alive",
)
"""Parameters outside the API of which the same is true, or which say how the model runs; others, such as grammars, bind
the answer."""


class ContextSummary(NamedTuple):
    text: str
    usage: Usage | None


def build_summary_turn(turn: Turn, items: Sequence[Item]) -> Turn:
    """The turn that asks for a summary of some of a turn's items, under the same instructions and without tools."""
    request = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": SUMMARY_PROMPT}]}
    return replace(
        turn,
        items=[*items, request],
        tools=(),
        tool_choice=None,
        parallel_tool_calls=None,
        sampling={name: turn.sampling[name] for name in _SUMMARY_SAMPLING if name in turn.sampling},
        extra={name: turn.extra[name] for name in _SUMMARY_EXTRA if name in turn.extra},
        max_output_tokens=None,
        text_format=None,
        verbosity=None,
    )


def require_compactable(turn: Turn) -> CompactionInput:
    """A turn's items taken apart for their compaction. Raises InvalidRequest where there is nothing to sum up."""
    parts = split_for_compaction(turn.items, awaits_answer=False)
    if not parts.summarizable:
        raise InvalidRequest("There is nothing to compact: the input holds no conversation.", param="input")
    return parts


async def request_summary(turn: Turn, items: Sequence[Item], make_exchange: ExchangeFactory) -> ContextSummary:
    """What the model writes of some of a turn's items. Raises CompactionFailed unless it is a whole text, TurnFailed,
    ProviderError."""
    collector = TurnCollector()
    async with aclosing(make_exchange(build_summary_turn(turn, items)).batches()) as batches:
        async for batch in batches:
            collector.feed(batch)
    if collector.failed is not None:
        raise TurnFailed(collector.failed)
    finished = collector.finished
    texts = [
        part["text"]
        for item in collector.items
        if item["type"] == "message"
        for part in item["content"]
        if part["type"] == "output_text"
    ]
    text = "".join(texts).strip()
    if finished is None or finished.reason != "stop" or not text:
        why = "was empty" if finished is not None and finished.reason == "stop" else "broke off"
        raise CompactionFailed(f"the model's summary of the conversation {why}; nothing was left out")
    return ContextSummary(text, collector.usage)


class SummaryExchange:
    """Answers a turn with a compaction item for all of it."""

    def __init__(self, turn: Turn, parts: CompactionInput, make_exchange: ExchangeFactory) -> None:
        self.losses: Final[Sequence[Loss]] = ()
        self._turn = turn
        self._parts = parts
        self._make_exchange = make_exchange

    async def batches(self) -> AsyncGenerator[Batch, None]:
        lead, older, rest = self._parts
        summary = await request_summary(self._turn, older, self._make_exchange)
        item = compaction_item(new_id("cmp"), CompactionContent(summary.text, lead, rest))
        yield [Started(self._turn.model), ItemStarted(0, item), ItemEnded(0, item)]
        yield [Finished("stop", "stop", summary.usage)]


class CompactingExchange:
    """Compacts what a turn goes on from where that `is_due`, tells of it in the first item, and goes on.

    The reply's usage is that of both.
    """

    def __init__(
        self,
        turn: Turn,
        make_summary_exchange: ExchangeFactory,
        make_exchange: ExchangeFactory,
        is_due: Callable[[], Awaitable[bool]],
    ) -> None:
        self.losses: Final[Sequence[Loss]] = ()
        self._turn = turn
        self._make_summary_exchange = make_summary_exchange
        self._make_exchange = make_exchange
        self._is_due = is_due

    async def batches(self) -> AsyncGenerator[Batch, None]:
        lead, older, rest = split_for_compaction(self._turn.items, awaits_answer=True)
        if not older or not await self._is_due():
            async with aclosing(self._make_exchange(self._turn).batches()) as batches:
                async for batch in batches:
                    yield batch
            return
        summary = await request_summary(self._turn, older, self._make_summary_exchange)
        item = compaction_item(new_id("cmp"), CompactionContent(summary.text, lead, rest))
        yield [Started(self._turn.model), ItemStarted(0, item), ItemEnded(0, item)]
        shorter = replace(self._turn, items=[*lead, summary_message(item, summary.text), *rest])
        async with aclosing(self._make_exchange(shorter).batches()) as batches:
            async for batch in batches:
                if shifted := list(_shift_events(batch, summary.usage)):
                    yield shifted


def _shift_events(batch: Batch, spent: Usage | None) -> Iterator[Event]:
    """Events of a reply that goes on after one item, whose production cost `spent`."""
    for event in batch:
        match event:
            case Started():
                continue
            case ItemStarted() | PartStarted() | Delta() | PartEnded() | ItemEnded() | Annotated() | Progressed():
                yield replace(event, index=event.index + 1)
            case Opaque() if event.index is not None:
                yield replace(event, index=event.index + 1)
            case Noted() | Finished() | Failed() if event.usage is not None:
                yield replace(event, usage=add_usage(event.usage, spent))
            case _:
                yield event


def add_usage(one: Usage | None, other: Usage | None) -> Usage | None:
    """Both together; what neither reported stays unknown."""
    if one is None or other is None:
        return one or other
    return Usage(
        input=_add_counts(one.input, other.input),
        output=_add_counts(one.output, other.output),
        cache_read=_add_counts(one.cache_read, other.cache_read),
        cache_write=_add_counts(one.cache_write, other.cache_write),
        reasoning=_add_counts(one.reasoning, other.reasoning),
    )


def _add_counts(one: Any, other: Any) -> int | None:
    return None if one is None and other is None else (one or 0) + (other or 0)
