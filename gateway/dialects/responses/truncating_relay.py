"""`truncation: auto` on a relay: an input that does not fit the model's context is relayed without its beginning."""

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Final

import orjson
import structlog

from dataplane.source import ForwardedSource
from gateway.errors import TurnFailed
from gateway.planning.truncation import INPUT_TRUNCATED, RETRY_SHARES, is_overflow
from gateway.replies.reply_streams import batch_has_content
from providers.base import RelayExchange, as_read_source
from providers.errors import ContextLengthExceeded
from providers.new_id import new_id
from translation.errors import ProtocolViolation
from translation.framing.sse import DONE_PAYLOAD, FrameDecoder
from translation.hygiene.item_groups import trim_items
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.responses.input_items import expand_item
from translation.responses.relaying.whole_response import failure_of_response
from translation.responses.upstream.decode import ResponsesDecoder

_log = structlog.get_logger(__name__)


class TruncatingRelay(ForwardedSource):
    """A relay that sends a body again with fewer items as long as the upstream rejects it as too long.

    It retries only before the reply has content: earlier reads are held back. `report_loss` is called before the first
    piece if items were left out. The rest of the body is unchanged. If the items that must stay do not fit, the
    upstream's rejection is raised, or relayed if it came in a reply with status 200.
    """

    def __init__(
        self, body: Json, make_relay: Callable[[Json], RelayExchange], report_loss: Callable[[Loss], None]
    ) -> None:
        self._make_relay = make_relay
        self._report_loss = report_loss
        self._item_count = self._sent_items = len(body.get("input") or ())
        self._shorter_bodies = _shorter_bodies(body)
        self._exchange = make_relay(body)
        self.losses: Final = self._exchange.losses
        super().__init__(as_read_source(self._exchange))

    def reads(self) -> AsyncGenerator[bytes, None]:
        return self.iterate()

    async def open(self) -> None:
        while True:
            try:
                await self._source.open()
                overflows = await self._read_to_content()
            except ContextLengthExceeded:
                if not self._send_less():
                    raise
                continue
            if not overflows:
                break
            source = self._source
            if not self._send_less():
                break
            self._held_reads = b""
            await source.close()
        self._report_truncation()

    async def fetch_body(self) -> Json | bytes:
        while True:
            try:
                answer = await self._exchange.fetch_body()
            except ContextLengthExceeded:
                if not self._send_less():
                    raise
                continue
            failed = failure_of_response(answer) if isinstance(answer, dict) else None
            if failed is None or not is_overflow(failed) or not self._send_less():
                self._report_truncation()
                return answer

    def _send_less(self) -> bool:
        """Replaces the exchange by one with the next shorter body. Returns False if there is none."""
        body = next(self._shorter_bodies, None)
        if body is None:
            return False
        self._sent_items = len(body["input"])
        self._exchange = self._make_relay(body)
        self._source = as_read_source(self._exchange)
        return True

    def _report_truncation(self) -> None:
        if self._sent_items != self._item_count:
            _log.info("input_truncated", items=self._item_count, sent=self._sent_items)
            self._report_loss(INPUT_TRUNCATED)

    async def _read_to_content(self) -> bool:
        """Holds back reads up to the first content. Returns whether the reply fails before that because of its
        length."""
        frames, decoder = FrameDecoder(), ResponsesDecoder(new_id)
        source = self._source
        while not source.ended:
            if not (read := source.take()):
                if not source.ended:
                    await source.wait_for_read()
                continue
            self._held_reads += read
            try:
                payloads = [frame.payload for frame in frames.feed(read) if frame.payload != DONE_PAYLOAD]
                if batch_has_content(decoder.decode_payloads(payloads)):
                    return False
            except TurnFailed as failure:
                return is_overflow(failure.failed)
            except (ProtocolViolation, orjson.JSONDecodeError):
                return False  # the relay handles invalid replies
        return False


def _shorter_bodies(body: Json) -> Iterator[Json]:
    """Yields bodies with fewer and fewer items of the client's input. An input that is a text cannot be shortened."""
    items: Sequence[Json] = body["input"] if isinstance(body.get("input"), list) else ()
    expanded = [expand_item(item) for item in items]
    positions = {id(item): position for position, item in enumerate(expanded)}
    count = len(items)
    for share in RETRY_SHARES:
        retained = trim_items(expanded, share)
        if len(retained) < count:
            count = len(retained)
            yield {**body, "input": [items[positions[id(item)]] for item in retained]}
