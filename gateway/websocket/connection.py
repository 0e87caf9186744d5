"""One open connection: reads what the client says, starts turns, and ends in order."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from starlette.types import Message, Receive, Send

from gateway.errors import BodyTooLarge, GatewayError, NotJson, ShuttingDown
from gateway.http.auth import Principal
from gateway.http.body import parse
from gateway.http.guard import ClientLeft, Drain
from gateway.service.service import Service
from gateway.websocket.events import Lane, create_of, error_event, lane_of, steer_refused, type_of
from gateway.websocket.turn import Turns
from gateway.websocket.turn_queue import Lanes, Memory
from translation.errors import InvalidRequest
from translation.representation.json_types import Json

Later: TypeAlias = Callable[[float, Callable[[], None]], asyncio.TimerHandle]
"""As an event loop's `call_later`."""

_OVER = 1000
_RESTART = 1012
"""Close codes of RFC 6455 and its registry; official clients connect again after the second."""

_MAX_REASON = 123
"""Bytes of a close frame's reason."""


class Limits(NamedTuple):
    """Of one connection. `hold_s`: how long the first events of a turn wait for its content."""

    max_bytes: int
    max_depth: int
    max_s: float
    hold_s: float


class _Ending(NamedTuple):
    """Why no turn is begun any more; `code`: what the connection is then closed with."""

    refusal: InvalidRequest | GatewayError
    code: int


class Connection:
    """`serve` returns when the connection is closed and whatever ran on it has ended.

    No turn is begun once the time is over or the server stops; those that run may finish, and the last closes the
    connection. When the client leaves they are broken off.
    """

    def __init__(
        self,
        service: Service,
        principal: Principal,
        drain: Drain,
        limits: Limits,
        receive: Receive,
        send: Send,
        *,
        strict: bool,
        later: Later | None = None,
    ) -> None:
        self._drain = drain
        self._limits = limits
        self._receive = receive
        self._send = send
        self._later = later
        self._lanes = Lanes(limits.max_bytes)
        self._gone = asyncio.Event()
        self._ending: _Ending | None = None
        self._closing = False
        self._tasks: asyncio.TaskGroup
        self._context: Context
        self._turns = Turns(
            service,
            principal,
            Memory(limits.max_bytes),
            drain,
            left=self._left,
            tell=self._tell,
            hold_s=limits.hold_s,
            strict=strict,
        )

    async def serve(self) -> None:
        later = self._later or asyncio.get_running_loop().call_later
        self._context = copy_context()
        timer = later(self._limits.max_s, self._time_over)
        try:
            async with asyncio.TaskGroup() as self._tasks:
                with self._drain.telling(self._server_stops):
                    await self._read()
        finally:
            timer.cancel()

    async def _read(self) -> None:
        while (message := await self._receive())["type"] != "websocket.disconnect":
            try:
                await self._take(message)
            except ClientLeft:
                break
        self._gone.set()

    async def _take(self, message: Message) -> None:
        lane: Lane = None
        try:
            event, size = self._parse(message)
            if type_of(event) == "response.steer":
                await self._tell(steer_refused(event))
                return
            lane = lane_of(event)
            create = create_of(event, size)
            if self._ending is not None:
                raise self._ending.refusal
            self._lanes.put(create)
        except (InvalidRequest, GatewayError) as error:
            await self._tell(error_event(error, lane))
            return
        self._start_turns()

    def _parse(self, message: Message) -> tuple[Json, int]:
        text: str | None = message.get("text")
        if text is None:
            raise NotJson("a message is text: one event as JSON")
        body = text.encode()
        if len(body) > self._limits.max_bytes:
            limit_mb = self._limits.max_bytes / (1024 * 1024)
            raise BodyTooLarge(f"the message is larger than {limit_mb:g} MB (server.max_body_mb)")
        return parse(body, max_depth=self._limits.max_depth), len(body)

    def _start_turns(self) -> None:
        while (create := self._lanes.take()) is not None:
            # What a turn binds for its log line is its own.
            task = self._tasks.create_task(self._turns.run(create), context=self._context.copy())
            task.add_done_callback(partial(self._turn_ended, create.lane))

    def _turn_ended(self, lane: Lane, _: Any) -> None:
        self._lanes.done(lane)
        if self._gone.is_set():
            return
        if self._ending is None:
            self._start_turns()
        elif not self._lanes.running:
            self._tasks.create_task(self._close(self._ending))

    def _time_over(self) -> None:
        minutes = self._limits.max_s / 60
        self._end(
            _Ending(
                InvalidRequest(
                    f"Responses websocket connection limit reached ({minutes:g} minutes). Create a new websocket "
                    "connection to continue.",
                    param=None,
                    code="websocket_connection_limit_reached",
                ),
                _OVER,
            )
        )

    def _server_stops(self) -> None:
        self._end(_Ending(ShuttingDown(), _RESTART))

    def _end(self, ending: _Ending) -> None:
        if self._ending is not None or self._gone.is_set():
            return
        self._ending = ending
        refused = [create.lane for create in self._lanes.give_up()]
        self._tasks.create_task(self._refuse(refused, ending))

    async def _refuse(self, lanes: list[Lane], ending: _Ending) -> None:
        for lane in lanes:
            await self._say({"type": "websocket.send", "text": error_event(ending.refusal, lane)})
        if not self._lanes.running:
            await self._close(ending)

    async def _close(self, ending: _Ending) -> None:
        if self._closing or self._gone.is_set():
            return
        self._closing = True
        if ending.code == _OVER:
            await self._say({"type": "websocket.send", "text": error_event(ending.refusal)})
        reason = ending.refusal.message[:_MAX_REASON]
        await self._say({"type": "websocket.close", "code": ending.code, "reason": reason})

    async def _left(self) -> Message:
        """As a request's `receive`: returns when the client has left."""
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _tell(self, text: str) -> None:
        """Send a message. Raises ClientLeft."""
        if self._closing:
            raise ClientLeft
        await self._send_or_leave({"type": "websocket.send", "text": text})

    async def _say(self, message: Message) -> None:
        """Send a message to whoever is still there."""
        with suppress(ClientLeft):
            await self._send_or_leave(message)

    async def _send_or_leave(self, message: Message) -> None:
        try:
            await self._send(message)
        except OSError:  # as ASGI servers say that nobody is there
            self._gone.set()
            raise ClientLeft from None
