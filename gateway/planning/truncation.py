"""`truncation: auto`: an input that does not fit the model's context is sent again without its oldest items."""

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final, TypeAlias

import structlog

from dataplane.body_weight import run_for_items
from gateway.errors import TurnFailed
from gateway.replies.reply_streams import batch_has_content
from providers.base import Batch, Exchange
from providers.errors import ContextLengthExceeded
from translation.hygiene.item_groups import trim_items
from translation.representation.events import Failed
from translation.representation.loss import Loss
from translation.representation.turn import Turn

ExchangeFactory: TypeAlias = Callable[[Turn], Exchange]
"""Prepares the exchange for a turn. Turn and events are in the client's terms. Raises InvalidRequest."""

_log = structlog.get_logger(__name__)

RETRY_SHARES = (0.75, 0.5, 0.25, 0.125, 0.0)
"""The share, by size, of the removable items that each retry still sends. No upstream reports reliably by how much an
input is too long."""

INPUT_TRUNCATED = Loss("input", "truncated")


def is_overflow(failed: Failed) -> bool:
    """Whether a reply failed because its input does not fit the model's context."""
    return failed.code == "context_length_exceeded"


class TruncatingExchange:
    """An exchange that retries a turn with fewer items as long as the upstream rejects it as too long.

    It retries only before the reply has content. `report_loss` is called before the first batch if items were left
    out. If the items that must stay (see `translation.hygiene.item_groups.trim_items`) do not fit, the upstream's
    rejection is raised.
    """

    def __init__(self, turn: Turn, make_exchange: ExchangeFactory, report_loss: Callable[[Loss], None]) -> None:
        self.losses: Final[Sequence[Loss]] = ()
        self._turn = turn
        self._make_exchange = make_exchange
        self._report_loss = report_loss

    async def batches(self) -> AsyncGenerator[Batch, None]:
        shorter = self._shorter_turns()
        turn = self._turn
        while True:
            buffered: list[Batch] = []
            begun = False
            try:
                exchange = await run_for_items(turn.items, self._make_exchange, turn)
                async with aclosing(exchange.batches()) as batches:
                    async for batch in batches:
                        if not begun:
                            buffered.append(batch)
                            if not batch_has_content(batch):
                                continue
                            begun = True
                            if turn is not self._turn:
                                _log.info("input_truncated", items=len(self._turn.items), sent=len(turn.items))
                                self._report_loss(INPUT_TRUNCATED)
                            batch = [event for held_batch in buffered for event in held_batch]
                        yield batch
                return
            except (ContextLengthExceeded, TurnFailed) as failure:
                if begun or (isinstance(failure, TurnFailed) and not is_overflow(failure.failed)):
                    raise
                shorter_turn = await run_for_items(turn.items, next, shorter, None)
                if shorter_turn is None:
                    raise
                turn = shorter_turn

    def _shorter_turns(self) -> Iterator[Turn]:
        length = len(self._turn.items)
        for share in RETRY_SHARES:
            items = trim_items(self._turn.items, share)
            if len(items) < length:
                length = len(items)
                yield replace(self._turn, items=items)
