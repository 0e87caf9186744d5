"""An upstream that sends far more than the buffers hold before a client that does not read."""

import asyncio

from .faults import CHAT
from .script import Exchange

WHOLE = 64 * 1024 * 1024
"""The number of bytes that it would send in all."""

_BURST = CHAT.frames[1] * 400


class Flood:
    """A script; `sent_before_held` is done with the bytes it got rid of before its connection took no more."""

    def __init__(self) -> None:
        self.sent_before_held: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def __call__(self, exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        for sent in range(0, WHOLE, len(_BURST)):
            try:
                async with asyncio.timeout(1):
                    await exchange.send(_BURST)
            except TimeoutError:
                self.sent_before_held.set_result(sent)
                await exchange.request.closed
                return
        self.sent_before_held.set_result(WHOLE)
