"""Runs turns of a WebSocket connection: sends the events of each response as messages."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import NamedTuple

import structlog
from starlette.types import Receive, Scope

from gateway.error_replies import resolve_error_reply
from gateway.errors import GatewayError, StoreUnavailable
from gateway.http.auth import Principal
from gateway.http.error_forms import bind_failure
from gateway.http.guard import ClientDisconnected, RequestGuard
from gateway.logs import bind_fields, copy_fields, has_failed, read_bound_fields, read_bound_request_id
from gateway.planning.plan import TranslationPlan
from gateway.replies.endpoints import Endpoint
from gateway.replies.event_stream import require_response
from gateway.replies.recorder import ForegroundRecorder
from gateway.replies.request_figures import round_ms
from gateway.service.admission import ClientRequest
from gateway.service.run import Run
from gateway.service.service import Service
from gateway.websocket.events import Lane, TurnRequest, add_headers, encode_error, render_messages
from gateway.websocket.turn_queue import CachedResponse, ResponseCache
from providers.base import Batch
from providers.errors import ProviderError
from providers.request_ids import CURRENT_IDS, RequestIds
from translation.errors import TranslationError
from translation.representation.events import Finished, Started, Usage
from translation.representation.json_types import Json
from translation.representation.loss import Loss

_log = structlog.get_logger(__name__)
_access = structlog.get_logger("gateway.access")

_STATUS_OK = 200
_STATUS_CLIENT_LEFT = 499


class _TurnWriter:
    """Sends a reply stream as messages.

    As over HTTP, nothing is sent until the first content, or until `hold_s` have passed: a failure before that is an
    error with a status. Each batch is sent before the next is read. The terminal event is sent after the response was
    stored. `on_end` gets the final response, and the size of its last frames in bytes.
    """

    def __init__(
        self,
        accepted: Run,
        lane: Lane,
        send_text: Callable[[str], Awaitable[None]],
        hold_s: float,
        on_end: Callable[[Json, int], None],
    ) -> None:
        self.has_sent = False
        self._accepted = accepted
        self._reply_stream = accepted.build_stream()
        self._lane = lane
        self._send_text = send_text
        self._hold_s = hold_s
        self._on_end = on_end
        self._has_headers = False
        self._is_holding = True
        self._end_was_processed = False
        self._is_stored = False
        self._unsent: deque[str] = deque()
        self._send_lock = asyncio.Lock()
        self._flush_task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Sends the whole reply. Raises what the reply stream raises, StoreUnavailable, and ClientDisconnected."""
        if self._accepted.recorder is not None:
            self._accepted.recorder.begin()
        timer = asyncio.get_running_loop().call_later(self._hold_s, self._stop_holding)
        try:
            async with aclosing(self._reply_stream.frames()) as frames:
                async for batch in frames:
                    await self._write_frames(batch)
            if not self._end_was_processed:
                await self._write_frames(b"")
        finally:
            timer.cancel()
            if self._flush_task is not None:
                self._flush_task.cancel()
        await self._flush()

    async def fail(self, error: Exception) -> None:
        """Ends a response that was partly sent, with the failure `error`."""
        if not self._end_was_processed:
            with suppress(StoreUnavailable):
                await self._write_frames(self._reply_stream.fail(error))
        await self._flush()
        if not self._is_stored:
            # The terminal event may be sent only if the response is stored, so the client gets an error event.
            await self._send_text(encode_error(error, self._lane))

    async def close(self) -> None:
        """Ends the stored response if `run` did not: as cancelled if a part of it was sent, else by deleting it."""
        if self._accepted.recorder is None:
            return
        unfinished = None
        if self.has_sent:
            if not self._reply_stream.ended:
                self._reply_stream.fail(ClientDisconnected())
            unfinished = self._reply_stream.result()
        await self._accepted.recorder.abandon(unfinished)

    async def _write_frames(self, frames: bytes) -> None:
        if self._reply_stream.ended and not self._end_was_processed:
            self._end_was_processed = True
            if self._accepted.recorder is not None:
                await self._accepted.recorder.finish(self._reply_stream.result())
            self._is_stored = True
            response = require_response(self._reply_stream)
            frames += self._reply_stream.conclude()
            self._on_end(response, len(frames))
        texts = list(render_messages(frames, self._lane))
        if texts and not self._has_headers:
            self._has_headers = True
            if headers := self._accepted.build_loss_headers() | _build_upstream_id_header():
                texts[0] = add_headers(texts[0], headers)
        self._unsent.extend(texts)
        if not self._is_holding or self._reply_stream.has_content:
            await self._flush()

    async def _flush(self) -> None:
        async with self._send_lock:
            while self._unsent:
                self.has_sent = True
                await self._send_text(self._unsent[0])
                self._unsent.popleft()

    def _stop_holding(self) -> None:
        self._is_holding = False
        if self._unsent:
            self._flush_task = asyncio.get_running_loop().create_task(self._flush_quietly())

    async def _flush_quietly(self) -> None:
        with suppress(ClientDisconnected):  # the task of the turn raises it too
            await self._flush()


def _build_upstream_id_header() -> dict[str, str]:
    ids = CURRENT_IDS.get()
    return {"x-upstream-request-id": ids.upstream} if ids is not None and ids.upstream else {}


class _EmptyExchange:
    """An exchange that sends nothing upstream, for `generate: false`. The empty response can be continued."""

    losses: Sequence[Loss] = ()

    def __init__(self, model: str) -> None:
        self._model = model

    async def batches(self) -> AsyncGenerator[Batch, None]:
        usage = Usage(input=0, output=0, cache_read=0, reasoning=0)
        yield [Started(self._model), Finished("stop", usage=usage)]


def _replace_exchange(run: Run) -> None:
    if isinstance(run.recorder, ForegroundRecorder):
        run.recorder.leave_approvals_open()
    exchange = _EmptyExchange(run.identity.model)
    plan = TranslationPlan(exchange=exchange, event_stage=None, losses=run.plan.losses)
    run.attempt = replace(run.attempt, plan=plan)
    run.ask_nobody()


class ConnectionClient(NamedTuple):
    """The client of one connection, as its handshake says. With `strict`, requests with losses are refused."""

    principal: Principal
    scope: Scope
    """The scope of its handshake."""
    strict: bool = False
    authenticate: Callable[[], Principal] | None = None
    """Finds the principal of the connection's key again, for each turn: the configuration of keys may have changed
    since the handshake."""


class TurnRunner:
    """Runs the turns of one connection. It knows no queue: callers run turns in their order."""

    def __init__(
        self,
        service: Service,
        endpoint: Endpoint,
        client: ConnectionClient,
        cache: ResponseCache,
        *,
        receive_disconnect: Receive,
        send_text: Callable[[str], Awaitable[None]],
        hold_s: float,
    ) -> None:
        self._service = service
        self._endpoint = endpoint
        self.principal = client.principal
        """The principal of the turns that start from now on."""
        self._cache = cache
        self._drain = service.drain
        self._receive_disconnect = receive_disconnect
        self._send_text = send_text
        self._hold_s = hold_s
        self._strict = client.strict
        self._scope = client.scope

    async def run(self, create: TurnRequest) -> None:
        """Runs a `response.create` event: sends the events of its response, or one error instead. It raises nothing."""
        began_ns = time.perf_counter_ns()
        copy_fields()  # the connection and its other turns have log lines of their own
        meter = self._service.watch.begin_request(self._scope, began_ns)
        ids = RequestIds(read_bound_request_id() or "")  # the turns of a connection share its id
        CURRENT_IDS.set(ids)
        writer: _TurnWriter | None = None
        status = _STATUS_OK
        try:
            try:
                with RequestGuard(self._receive_disconnect, self._drain):
                    writer = await self._accept_turn(create)
                    await writer.run()
            except (GatewayError, ProviderError, TranslationError) as error:
                status = await self._report_failure(create, writer, error)
            except ClientDisconnected:
                raise
            except Exception as error:
                _log.exception("turn_failed")
                status = await self._report_failure(create, writer, error)
        except ClientDisconnected:
            status = _STATUS_CLIENT_LEFT
        finally:
            if writer is not None:
                await writer.close()
            bind_fields(**ids.list_log_fields())
            elapsed_ns = time.perf_counter_ns() - began_ns
            meter.end(status, elapsed_ns, read_bound_fields())
            log = _access.warning if has_failed(read_bound_fields()) else _access.info
            log("turn", status=status, ms=round_ms(elapsed_ns))

    async def _accept_turn(self, create: TurnRequest) -> _TurnWriter:
        past_size, past_weight = self._cache.measure(create.body.get("previous_response_id"))
        size, weight = past_size + create.size, past_weight + create.weight
        cached_items = self._cache.map_items_by_id()
        accepted = await self._service.accept(
            ClientRequest(
                self._endpoint,
                self.principal,
                create.body,
                self._strict,
                weight,
                connection_items=cached_items,
            )
        )
        if not create.generate:
            _replace_exchange(accepted)

        def update_cache(response: Json, reply_size: int) -> None:
            if response["status"] == "failed":
                self._cache.evict(create.lane, create.body.get("previous_response_id"))
            elif accepted.recorder is not None and response["store"]:
                self._cache.replace_latest(create.lane, None)
            else:
                items = [*accepted.context, *response["output"]]
                cached = CachedResponse(response["id"], items, size + reply_size, weight + reply_size)
                self._cache.replace_latest(create.lane, cached)

        return _TurnWriter(accepted, create.lane, self._send_text, self._hold_s, update_cache)

    async def _report_failure(self, create: TurnRequest, writer: _TurnWriter | None, error: Exception) -> int:
        bind_failure(error)
        self._cache.evict(create.lane, create.body.get("previous_response_id"))
        if writer is not None and writer.has_sent:
            await writer.fail(error)
            return _STATUS_OK
        await self._send_text(encode_error(error, create.lane))
        return resolve_error_reply(error).status
