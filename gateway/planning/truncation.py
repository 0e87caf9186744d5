"""`truncation: auto`: an input that does not fit is sent again without its beginning."""

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final, TypeAlias

import structlog

from gateway.errors import TurnFailed
from gateway.replies.reply_streams import batch_has_content
from providers.base import Batch, Exchange
from providers.errors import ContextLengthExceeded
from translation.hygiene.item_groups import trim_items
from translation.representation.loss import Loss
from translation.representation.turn import Turn

ExchangeFactory: TypeAlias = Callable[[Turn], Exchange]
"""A turn in the client's terms to an exchange whose events are in the client's terms too. Raises InvalidRequest."""

_log = structlog.get_logger(__name__)

_RETRY_SHARES = (0.75, 0.5, 0.25, 0.125, 0.0)
"""How much of what can be left out is sent in each further try. No upstream says how much too long an input is in a way
that could be relied on."""

INPUT_TRUNCATED = Loss("input", "truncated")


class TruncatingExchange:
    """Sends the turn; while the upstream finds it too long before it has said anything, again with less of it.

    `report` is told when something was left out, before the first batch. What has to stay (see
    `translation.hygiene.item_groups.trimmed`) and still does not fit is the upstream's refusal.
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
                async with aclosing(self._make_exchange(turn).batches()) as batches:
                    async for batch in batches:
                        if not begun:
                            buffered.append(batch)
                            if not batch_has_content(batch):
                                continue
                            begun = True
                            if turn is not self._turn:
                                _log.info("input_truncated", items=len(self._turn.items), sent=len(turn.items))
                                self._report_loss(INPUT_TRUNCATED)
                            batch = [event for each in buffered for event in each]
                        yield batch
                return
            except (ContextLengthExceeded, TurnFailed) as failure:
                if begun or (isinstance(failure, TurnFailed) and failure.failed.code != "context_length_exceeded"):
                    raise
                less = next(shorter, None)
                if less is None:
                    raise
                turn = less

    def _shorter_turns(self) -> Iterator[Turn]:
        length = len(self._turn.items)
        for share in _RETRY_SHARES:
            items = trim_items(self._turn.items, share)
            if len(items) < length:
                length = len(items)
                yield replace(self._turn, items=items)
