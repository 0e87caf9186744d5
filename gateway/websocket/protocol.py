"""The bytes of a connection: uvicorn's WebSocket protocol, ended by the application, and with a bound on everything."""

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

_CLOSE_TIMEOUT_S = 2.0
"""For the peer's half of the closing handshake."""


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """One connection of the server."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.close_timeout = _CLOSE_TIMEOUT_S

    async def send(self, message: Any) -> None:
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            # An HTTP answer is a handshake that is complete; uvicorn would log it as an error of the application.
            self.handshake_complete = True

    def shutdown(self) -> None:
        """The server stops. An open connection is closed by the application, once its turns have ended."""
        if self.close_sent or not self.handshake_complete:
            super().shutdown()

    def handle_cont(self, event: Frame) -> None:
        # By default the fragments are a list, which a flood of tiny or empty ones makes far larger than the message.
        message: Any = self.frames[0]
        if not isinstance(message, bytearray):
            message = bytearray(message)
            self.frames = [message]
        message += event.data
        if event.fin:
            self.send_receive_event_to_app()

    def handle_ping(self) -> None:
        # A peer that sends pings and reads nothing gets no pile of answers.
        output = self.conn.data_to_send()
        if self.writable.is_set():
            self.transport.write(b"".join(output))

    def keepalive_timeout(self) -> None:
        """The peer is not there any more, or reads nothing: whatever is still to be sent will never leave."""
        super().keepalive_timeout()
        self.transport.abort()
