"""uvicorn's WebSocket protocol with bounded buffers. On shutdown the application closes the connection.

Knows nothing of turns and events.
"""

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame

_CLOSE_TIMEOUT_S = 2.0
"""Seconds that the peer has to answer a close frame."""

_PIECE_BYTES = 4096
_FRAMES_AT_ONCE = 128
"""So many frames take a few milliseconds of the event loop, and so do the smallest frames of one piece. A read can have
forty thousand."""


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """The protocol of one WebSocket connection of the server."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.close_timeout = _CLOSE_TIMEOUT_S
        self._unread = memoryview(b"")
        """The rest of the bytes that were received. Reading is paused until it is parsed."""

    def data_received(self, data: bytes) -> None:
        if self._unread:  # the reader was resumed, because the application took a message
            self._unread = memoryview(bytes(self._unread) + data)
            self.transport.pause_reading()
            return
        self._unread = memoryview(data)
        self._parse_unread()

    def _parse_unread(self) -> None:
        """Parses what was received, piece by piece. After some frames it lets other callbacks run first."""
        frames = 0
        while self._unread and not self.transport.is_closing():
            if frames >= _FRAMES_AT_ONCE:
                self.transport.pause_reading()
                self.loop.call_soon(self._parse_rest)
                return
            piece, self._unread = self._unread[:_PIECE_BYTES], self._unread[_PIECE_BYTES:]
            self.conn.receive_data(bytes(piece))
            if self.conn.parser_exc is not None:
                self._unread = memoryview(b"")
                self.handle_parser_exception()
                return
            frames += len(self.conn.events)
            self.handle_events()

    def _parse_rest(self) -> None:
        self._parse_unread()
        if not (self._unread or self.read_paused or self.transport.is_closing()):
            self.transport.resume_reading()

    async def send(self, message: Any) -> None:
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            # After an HTTP reply the handshake is complete. Otherwise uvicorn would log an error of the application.
            self.handshake_complete = True

    def shutdown(self) -> None:
        """Handles the stop of the server. The application closes an open connection once its turns have ended."""
        if self.close_sent or not self.handshake_complete:
            super().shutdown()

    def handle_cont(self, event: Frame) -> None:
        # By default the fragments are collected in a list. With many tiny or empty fragments, the list would need far
        # more memory than the message.
        message: Any = self.frames[0]
        if not isinstance(message, bytearray):
            message = bytearray(message)
            self.frames = [message]
        message += event.data
        if event.fin:
            self.send_receive_event_to_app()

    def send_receive_event_to_app(self) -> None:
        # By default a text that is not UTF-8 is logged as an error of the server, with a traceback and no request.
        data = b"".join(self.frames)
        if self.curr_msg_data_type == "text" and not self.close_sent and not data.isascii():
            try:
                data.decode()
            except UnicodeDecodeError as error:
                self.frames = []
                self.conn.send_close(CloseCode.INVALID_DATA, f"the message is not UTF-8 text: byte {error.start}")
                self.handle_parser_exception()
                return
        super().send_receive_event_to_app()

    def handle_ping(self) -> None:
        # No pongs accumulate for a peer that sends pings and reads nothing.
        output = self.conn.data_to_send()
        if self.writable.is_set():
            self.transport.write(b"".join(output))

    def keepalive_timeout(self) -> None:
        """Aborts the connection of a peer that does not answer pings. Pending output cannot be sent, and is dropped."""
        super().keepalive_timeout()
        self.transport.abort()
