"""One turn on a connection: the events of its response, as messages."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace

import structlog
from starlette.types import Receive

from gateway import errors
from gateway.errors import GatewayError, StoreUnavailable
from gateway.http.auth import Principal
from gateway.http.guard import ClientLeft, Drain, Guard
from gateway.logs import note_failure
from gateway.planning.plan import Translated
from gateway.replies.endpoints import RESPONSES
from gateway.service.accepted_request import Opened
from gateway.service.service import Service
from gateway.websocket.events import Create, Lane, error_event, messages, with_headers
from gateway.websocket.turn_queue import Kept, Memory
from providers.base import Batch
from providers.errors import ProviderError
from translation.errors import TranslationError
from translation.representation.events import Finished, Started, Usage
from translation.representation.json_types import Json
from translation.representation.loss import Loss

_log = structlog.get_logger(__name__)
_access = structlog.get_logger("gateway.access")

_OK = 200
_LEFT = 499


class _Telling:
    """Sends a wire as messages. As over HTTP, nothing is said before the upstream has said something that a retry would
    repeat, or `hold_s` have passed: a failure until then is an error with a status. Each batch is sent before the next
    is read, and the last once its response is kept."""

    def __init__(
        self,
        opened: Opened,
        lane: Lane,
        tell: Callable[[str], Awaitable[None]],
        hold_s: float,
        ended: Callable[[Json, int], None],
    ) -> None:
        self.begun = False
        self._opened = opened
        self._wire = opened.wire()
        self._lane = lane
        self._tell = tell
        self._hold_s = hold_s
        self._ended = ended
        self._headers = opened.headers()
        self._holding = True
        self._settled = False
        self._kept = False
        self._unsent: deque[str] = deque()
        self._sending = asyncio.Lock()
        self._waker: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Raises what the wire raises, StoreUnavailable, and ClientLeft."""
        if self._opened.recording is not None:
            self._opened.recording.begin()
        timer = asyncio.get_running_loop().call_later(self._hold_s, self._stop_holding)
        try:
            async with aclosing(self._wire.frames()) as frames:
                async for batch in frames:
                    await self._take(batch)
        finally:
            timer.cancel()
            if self._waker is not None:
                self._waker.cancel()
        await self._flush()

    async def fail(self, error: Exception) -> None:
        """End a response that has begun to be told."""
        if not self._settled:
            with suppress(StoreUnavailable):
                await self._take(self._wire.fail(error))
        await self._flush()
        if not self._kept:
            # What a response ended in is told only once it is kept.
            await self._tell(error_event(error, self._lane))

    async def close(self) -> None:
        """Leave nothing half in the store."""
        if self._opened.recording is None:
            return
        unfinished = None
        if self.begun:
            if not self._wire.ended:
                self._wire.fail(ClientLeft())
            unfinished = self._wire.result()
        await self._opened.recording.abandon(unfinished)

    async def _take(self, frames: bytes) -> None:
        told = list(messages(frames, self._lane))
        if self._headers and told:
            told[0] = with_headers(told[0], self._headers)
            self._headers = {}
        if self._wire.ended and not self._settled:
            self._settled = True
            if self._opened.recording is not None:
                await self._opened.recording.finish(self._wire.result())
            self._kept = True
            response = self._wire.result()
            assert response is not None  # a Responses wire always has one
            self._ended(response, len(frames))
        self._unsent.extend(told)
        if not self._holding or self._wire.has_content:
            await self._flush()

    async def _flush(self) -> None:
        async with self._sending:
            while self._unsent:
                self.begun = True
                await self._tell(self._unsent[0])
                self._unsent.popleft()

    def _stop_holding(self) -> None:
        self._holding = False
        if self._unsent:
            self._waker = asyncio.get_running_loop().create_task(self._flush_held())

    async def _flush_held(self) -> None:
        with suppress(ClientLeft):  # the turn hears of it itself
            await self._flush()


class _Prepared:
    """An exchange that asks nothing: `generate: false` is about the state it leaves."""

    losses: Sequence[Loss] = ()

    def __init__(self, model: str) -> None:
        self._model = model

    async def batches(self) -> AsyncGenerator[Batch, None]:
        usage = Usage(input=0, output=0, cache_read=0, reasoning=0)
        yield [Started(self._model), Finished("stop", usage=usage)]


def _prepared(opened: Opened) -> Opened:
    run = opened.run
    exchange = _Prepared(run.identity.model)
    return replace(opened, run=replace(run, plan=Translated(exchange=exchange, calls=None, losses=run.plan.losses)))


class Turns:
    """Runs the turns of one connection."""

    def __init__(
        self,
        service: Service,
        principal: Principal,
        memory: Memory,
        drain: Drain,
        *,
        left: Receive,
        tell: Callable[[str], Awaitable[None]],
        hold_s: float,
        strict: bool,
    ) -> None:
        self._service = service
        self._principal = principal
        self._memory = memory
        self._drain = drain
        self._left = left
        self._tell = tell
        self._hold_s = hold_s
        self._strict = strict

    async def run(self, create: Create) -> None:
        """From a create event to the last event of its response, or the one error in its place. Raises nothing."""
        began = time.perf_counter()
        telling: _Telling | None = None
        status = _OK
        try:
            try:
                with Guard(self._left, self._drain):
                    telling = await self._open(create)
                    await telling.run()
            except (GatewayError, ProviderError, TranslationError) as error:
                status = await self._fail(create, telling, error)
            except ClientLeft:
                raise
            except Exception as error:
                _log.exception("turn_failed")
                status = await self._fail(create, telling, error)
        except ClientLeft:
            status = _LEFT
        finally:
            if telling is not None:
                await telling.close()
            _access.info("turn", status=status, ms=round((time.perf_counter() - began) * 1000, 1))

    async def _open(self, create: Create) -> _Telling:
        size = self._memory.size(create.body.get("previous_response_id")) + create.size
        local = self._memory.by_id()
        opened = await self._service.open(RESPONSES, self._principal, create.body, strict=self._strict, local=local)
        if not create.generate:
            opened = _prepared(opened)

        def remember(response: Json, told: int) -> None:
            if response["status"] == "failed":
                self._memory.evict(create.lane, create.body.get("previous_response_id"))
            elif opened.recording is not None:
                self._memory.advance(create.lane, None)
            else:
                items = [*opened.context, *response["output"]]
                self._memory.advance(create.lane, Kept(response["id"], items, size + told))

        return _Telling(opened, create.lane, self._tell, self._hold_s, remember)

    async def _fail(self, create: Create, telling: _Telling | None, error: Exception) -> int:
        note_failure(error)
        self._memory.evict(create.lane, create.body.get("previous_response_id"))
        if telling is not None and telling.begun:
            await telling.fail(error)
            return _OK
        await self._tell(error_event(error, create.lane))
        return errors.answer(error).status
