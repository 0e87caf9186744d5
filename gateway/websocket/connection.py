"""One open WebSocket connection: reads the client's events, starts turns, and closes in order."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from starlette.types import Message, Receive, Send

from dataplane.body_weight import weigh_body
from gateway.errors import BodyTooLarge, GatewayError, NotJson, ShuttingDown
from gateway.http.body import BodyLimits, SizedBody, parse_json_object
from gateway.http.guard import ClientDisconnected
from gateway.replies.endpoints import Endpoint
from gateway.service.service import Service
from gateway.websocket.events import (
    Lane,
    encode_error,
    encode_steer_failure,
    parse_event_type,
    parse_lane,
    parse_turn_request,
)
from gateway.websocket.turn import ConnectionClient, TurnRunner
from gateway.websocket.turn_queue import ResponseCache, TurnQueue
from translation.errors import InvalidRequest

CallLater: TypeAlias = Callable[[float, Callable[[], None]], asyncio.TimerHandle]
"""The signature of `call_later` of an event loop."""

_CLOSE_NORMAL = 1000
_CLOSE_SERVICE_RESTART = 1012
"""Close codes of RFC 6455 and its registry. Official clients reconnect after the second."""

_MAX_REASON_BYTES = 123
"""The most bytes of the reason in a close frame."""


class ConnectionLimits(NamedTuple):
    """The limits of one connection.

    They are the limits of a message as a body, and the seconds after which no turn is started. `hold_s` is the longest
    time that the first events of a turn wait for its content.
    """

    body: BodyLimits
    max_s: float
    hold_s: float


class _Ending(NamedTuple):
    """The reason why no further turn is started. Further turns get `refusal`; the connection is closed with `code`."""

    refusal: InvalidRequest | GatewayError
    code: int


class WebSocketConnection:
    """Runs the turns of one connection. `serve` returns when the connection is closed and all its turns have ended.

    No turn is started after the time limit or once the server stops. Running turns may finish, and the last of them
    closes the connection. If the client disconnects, they are cancelled.
    """

    def __init__(
        self,
        service: Service,
        endpoint: Endpoint,
        client: ConnectionClient,
        limits: ConnectionLimits,
        receive: Receive,
        send: Send,
        call_later: CallLater | None = None,
    ) -> None:
        self._authenticate = client.authenticate
        self._drain = service.drain
        self._limits = limits
        self._pool = service.large_bodies
        self._receive = receive
        self._send = send
        self._call_later = call_later
        self._turn_queue = TurnQueue(limits.body.max_bytes)
        self._client_left = asyncio.Event()
        self._ending: _Ending | None = None
        self._closing = False
        self._tasks: asyncio.TaskGroup
        self._context: Context
        self._turn_runner = TurnRunner(
            service,
            endpoint,
            client,
            ResponseCache(limits.body.max_bytes),
            receive_disconnect=self._receive_disconnect,
            send_text=self._send_text,
            hold_s=limits.hold_s,
        )

    async def serve(self) -> None:
        call_later = self._call_later or asyncio.get_running_loop().call_later
        self._context = copy_context()
        timer = call_later(self._limits.max_s, self._end_for_age)
        try:
            async with asyncio.TaskGroup() as self._tasks:
                with self._drain.notify_on_begin(self._end_for_shutdown):
                    await self._read_messages()
        finally:
            timer.cancel()

    async def _read_messages(self) -> None:
        while (message := await self._receive())["type"] != "websocket.disconnect":
            try:
                await self._process_message(message)
            except ClientDisconnected:
                break
        self._client_left.set()

    async def _process_message(self, message: Message) -> None:
        lane: Lane = None
        try:
            event, size, weight = await self._parse_message(message)
            if parse_event_type(event) == "response.steer":
                await self._send_text(encode_steer_failure(event))
                return
            lane = parse_lane(event)
            turn = parse_turn_request(event, size, weight)
            if self._ending is not None:
                raise self._ending.refusal
            if self._authenticate is not None:
                self._turn_runner.principal = self._authenticate()
            self._turn_queue.put(turn)
        except (InvalidRequest, GatewayError) as error:
            await self._send_text(encode_error(error, lane))
            return
        self._start_turns()

    async def _parse_message(self, message: Message) -> SizedBody:
        text: str | None = message.get("text")
        if text is None:
            raise NotJson("a message must be text: one event as JSON")
        body = text.encode()
        if len(body) > self._limits.body.max_bytes:
            limit_mb = self._limits.body.max_bytes / (1024 * 1024)
            raise BodyTooLarge(f"the message is larger than {limit_mb:g} MB (server.max_body_mb)")
        weight, shape = weigh_body(body)
        event = await self._pool.call_weighed(weight, parse_json_object, body, self._limits.body, weight, shape)
        return event, len(body), weight

    def _start_turns(self) -> None:
        while (turn := self._turn_queue.pop_runnable()) is not None:
            # Each turn has a context of its own, so that the values it binds for its log line are not shared.
            task = self._tasks.create_task(self._turn_runner.run(turn), context=self._context.copy())
            task.add_done_callback(partial(self._on_turn_ended, turn.lane))

    def _on_turn_ended(self, lane: Lane, _: Any) -> None:
        self._turn_queue.release(lane)
        if self._client_left.is_set():
            return
        if self._ending is None:
            self._start_turns()
        elif not self._turn_queue.running_count:
            self._tasks.create_task(self._close(self._ending))

    def _end_for_age(self) -> None:
        minutes = self._limits.max_s / 60
        self._stop_accepting(
            _Ending(
                InvalidRequest(
                    f"Responses websocket connection limit reached ({minutes:g} minutes). Create a new websocket "
                    "connection to continue.",
                    param=None,
                    code="websocket_connection_limit_reached",
                ),
                _CLOSE_NORMAL,
            )
        )

    def _end_for_shutdown(self) -> None:
        self._stop_accepting(_Ending(ShuttingDown(), _CLOSE_SERVICE_RESTART))

    def _stop_accepting(self, ending: _Ending) -> None:
        if self._ending is not None or self._client_left.is_set():
            return
        self._ending = ending
        refused_lanes = [turn.lane for turn in self._turn_queue.clear()]
        self._tasks.create_task(self._refuse_turns(refused_lanes, ending))

    async def _refuse_turns(self, lanes: list[Lane], ending: _Ending) -> None:
        for lane in lanes:
            await self._send_if_present({"type": "websocket.send", "text": encode_error(ending.refusal, lane)})
        if not self._turn_queue.running_count:
            await self._close(ending)

    async def _close(self, ending: _Ending) -> None:
        if self._closing or self._client_left.is_set():
            return
        self._closing = True
        if ending.code == _CLOSE_NORMAL:
            await self._send_if_present({"type": "websocket.send", "text": encode_error(ending.refusal)})
        reason = ending.refusal.message[:_MAX_REASON_BYTES]
        await self._send_if_present({"type": "websocket.close", "code": ending.code, "reason": reason})

    async def _receive_disconnect(self) -> Message:
        """Serves as the ASGI `receive` of a turn: returns once the client has disconnected."""
        await self._client_left.wait()
        return {"type": "http.disconnect"}

    async def _send_text(self, text: str) -> None:
        """Sends a text message. Raises ClientDisconnected."""
        if self._closing:
            raise ClientDisconnected
        await self._send_message({"type": "websocket.send", "text": text})

    async def _send_if_present(self, message: Message) -> None:
        """Sends a message, unless the client has disconnected."""
        with suppress(ClientDisconnected):
            await self._send_message(message)

    async def _send_message(self, message: Message) -> None:
        try:
            await self._send(message)
        except OSError:  # ASGI servers raise this if the client has disconnected
            self._client_left.set()
            raise ClientDisconnected from None
