"""Compaction: the model summarizes the conversation in a turn of its own, and continues from the summary.

With hosted tools this may happen before any round of a response.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final, NamedTuple

import orjson

from dataplane.body_weight import run_for_items
from gateway.errors import CompactionFailed, TurnFailed
from gateway.planning.admitted_request import AdmittedRequest
from gateway.planning.token_counting import MEDIA_TYPES, exceeds_token_limit
from gateway.planning.truncation import ExchangeFactory
from gateway.sealing.sealer import is_sealed
from gateway.tools.loop_io import CompactedContext, LoopIO
from providers.base import Batch
from providers.new_id import new_id
from translation.errors import InvalidRequest
from translation.hosted.call_forms import MCP_FORMS, CallForm
from translation.hosted.compaction import HostedContextParts, split_hosted_context
from translation.hosted.past_hosted_calls import resolve_history
from translation.hosted.tools import model_name_of
from translation.hygiene.item_groups import CompactionInput, split_for_compaction
from translation.lowering.input_files import FileContent, take_files_out
from translation.representation.collector import TurnCollector
from translation.representation.events import (
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
from translation.representation.loss import Loss
from translation.representation.turn import Turn
from translation.responses.compaction import (
    SUMMARY_PROMPT,
    CompactionContent,
    build_compaction_item,
    build_summary_message,
)

_NO_FILES: Final[Mapping[str, FileContent]] = {}

_SUMMARY_SAMPLING = ("service_tier", "user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention")
"""Parameters that the summary turn shares with the client's turn: they identify the client and set the price, but do
not shape the reply."""

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
"""Parameters outside the API that the summary turn shares, because they set the price or how the model runs. Others,
such as grammars, would constrain the summary."""


class ContextSummary(NamedTuple):
    """The model's summary of a context, and the usage of writing it."""

    text: str
    usage: Usage | None


def build_summary_turn(turn: Turn, items: Sequence[Item]) -> Turn:
    """Returns the turn that asks for a summary of `items`, with the same instructions as `turn` and without tools."""
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


def require_compactable(turn: Turn, forms: Mapping[str, CallForm] = MCP_FORMS) -> CompactionInput:
    """Splits an input that is compacted as a whole. Raises InvalidRequest if it has nothing to summarize.

    Calls of hosted tools, whose items have these `forms`, are summarized in the form that the model read. Retained
    items are items of the API.
    """
    history = resolve_history(turn.items, model_name_of, forms=forms)
    parts = split_hosted_context(
        history.items, history.sources, history.open_ids, history.listed.values(), awaits_answer=False
    )
    if not parts.summarizable:
        raise InvalidRequest("There is nothing to compact: the input holds no conversation.", param="input")
    return CompactionInput(parts.instructions, parts.summarizable, parts.sealed)


async def request_summary(turn: Turn, items: Sequence[Item], make_exchange: ExchangeFactory) -> ContextSummary:
    """Asks the model for a summary of some of a turn's items and returns it.

    Raises CompactionFailed if the summary is empty or incomplete, TurnFailed and ProviderError.
    """
    collector = TurnCollector()
    exchange = await run_for_items(items, make_exchange, build_summary_turn(turn, items))
    async with aclosing(exchange.batches()) as batches:
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
        fault = "is empty" if finished is not None and finished.reason == "stop" else "is incomplete"
        raise CompactionFailed(f"the model's summary of the conversation {fault}, so the context was not compacted")
    return ContextSummary(text, collector.usage)


async def build_sealed_item(content: CompactionContent, files: Mapping[str, FileContent]) -> Item:
    """Returns the compaction item of a context that has these contents of files. The item names them: it would carry
    whole files from then on, and later turns read them by their ids as they do in any other history."""
    lead, rest = await run_for_items(
        (*content.lead, *content.rest), lambda: [take_files_out(items, files) for items in (content.lead, content.rest)]
    )
    return build_compaction_item(new_id("cmp"), content._replace(lead=lead, rest=rest))


class SummaryExchange:
    """An exchange whose reply is one compaction item for the whole turn."""

    def __init__(
        self,
        turn: Turn,
        parts: CompactionInput,
        make_exchange: ExchangeFactory,
        files: Mapping[str, FileContent] = _NO_FILES,
    ) -> None:
        """`files` are the contents that the turn has in place of the client's ids."""
        self.losses: Final[Sequence[Loss]] = ()
        self._files = files
        self._turn = turn
        self._parts = parts
        self._make_exchange = make_exchange

    async def batches(self) -> AsyncGenerator[Batch, None]:
        lead, older, rest = self._parts
        summary = await request_summary(self._turn, older, self._make_exchange)
        item = await build_sealed_item(CompactionContent(summary.text, lead, rest), self._files)
        yield [Started(self._turn.model), ItemStarted(0, item), ItemEnded(0, item)]
        yield [Finished("stop", "stop", summary.usage)]


class CompactingExchange:
    """An exchange that compacts a turn's context if possible and if `is_due` returns true, and then runs the turn.

    The reply then begins with the compaction item, and its usage is the sum of both requests.
    """

    def __init__(
        self,
        turn: Turn,
        make_summary_exchange: ExchangeFactory,
        make_exchange: ExchangeFactory,
        is_due: Callable[[], Awaitable[bool]],
        files: Mapping[str, FileContent] = _NO_FILES,
    ) -> None:
        """`files` are the contents that the turn has in place of the client's ids."""
        self._files = files
        self.losses: Final[Sequence[Loss]] = ()
        self._turn = turn
        self._make_summary_exchange = make_summary_exchange
        self._make_exchange = make_exchange
        self._is_due = is_due

    async def batches(self) -> AsyncGenerator[Batch, None]:
        items = self._turn.items
        lead, older, rest = await run_for_items(items, split_for_compaction, items, awaits_answer=True)
        if not older or not await self._is_due():
            exchange = await run_for_items(items, self._make_exchange, self._turn)
            async with aclosing(exchange.batches()) as batches:
                async for batch in batches:
                    yield batch
            return
        summary = await request_summary(self._turn, older, self._make_summary_exchange)
        item = await build_sealed_item(CompactionContent(summary.text, lead, rest), self._files)
        yield [Started(self._turn.model), ItemStarted(0, item), ItemEnded(0, item)]
        shorter = replace(self._turn, items=[*lead, build_summary_message(item, summary.text), *rest])
        exchange = await run_for_items(shorter.items, self._make_exchange, shorter)
        async with aclosing(exchange.batches()) as batches:
            async for batch in batches:
                if shifted := list(_shift_events(batch, summary.usage)):
                    yield shifted


def _shift_events(batch: Batch, spent: Usage | None) -> Iterator[Event]:
    """Yields the events of a reply that continues after a first item: indexes shift by one, usage includes `spent`."""
    for event in batch:
        match event:
            case Started():
                continue
            case Noted() | Finished() | Failed() if event.usage is not None:
                yield replace(event, usage=add_usage(event.usage, spent))
            case _:
                yield shift_index(event, 1)


class LoopCompactor:
    """Compacts contexts with more than `limit` tokens, but not before two rounds in a row: the rest of such a context
    is what the model needs now, and a summary of the summary would only lose more.

    `request` is the request of the response. `make_exchange` prepares the requests for summaries. `seal_item` seals the
    parts of an item that only the upstream may read.
    """

    def __init__(
        self,
        request: AdmittedRequest,
        limit: int,
        make_exchange: ExchangeFactory,
        seal_item: Callable[[Item], Item],
        loop_io: LoopIO,
    ) -> None:
        self._request = request
        self._limit = limit
        self._make_exchange = make_exchange
        self._seal_item = seal_item
        self._loop_io = loop_io
        self._is_first = True
        self._has_just_compacted = False

    async def compact(self, turn: Turn, parts: HostedContextParts, last_usage: Usage | None) -> CompactedContext | None:
        is_due = bool(parts.summarizable) and not self._has_just_compacted and await self._is_due(turn, last_usage)
        self._is_first = False
        self._has_just_compacted = is_due
        if not is_due:
            return None
        summary = await request_summary(turn, parts.summarizable, self._make_exchange)
        sealed = [item if _is_sealed(item) else self._seal_item(item) for item in parts.sealed]
        content = CompactionContent(summary.text, parts.instructions, sealed)
        item = await build_sealed_item(content, self._request.loaded_files)
        items = [*parts.instructions, build_summary_message(item, summary.text), *parts.retained]
        return CompactedContext(item, items, summary.usage)

    async def _is_due(self, turn: Turn, last_usage: Usage | None) -> bool:
        if self._is_first and self._loop_io.interruption is None:
            return await exceeds_token_limit(self._limit, turn, self._request, self._request.history_tokens)
        if last_usage is not None and last_usage.input is not None:
            known = last_usage.input + (last_usage.output or 0)
            if known > self._limit:
                return True
            outputs = orjson.dumps([*_last_outputs(turn.items)])
            # Every token is at least one byte of text. Media can be any number of tokens.
            if known + len(outputs) <= self._limit and not any(kind in outputs for kind in MEDIA_TYPES):
                return False
        if self._request.target.capabilities.counting == "none":
            return False
        return await exceeds_token_limit(self._limit, turn, self._request, None)


def _is_sealed(item: Item) -> bool:
    text = item.get("encrypted_content")
    return isinstance(text, str) and is_sealed(text)


def _last_outputs(items: Sequence[Item]) -> Iterator[Item]:
    """Yields the results of the last round, at the end of the items: the model has not read them yet."""
    for item in reversed(items):
        if not item["type"].endswith("_output"):
            return
        yield item
