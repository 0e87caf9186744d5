"""A text message that is not UTF-8 closes its connection with the code for that, and is no error of the server."""

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedError

from tests.serving import serving_here


@pytest.mark.parametrize("in_fragments", [False, True])
async def test_a_text_that_is_not_utf8_closes_the_connection(
    caplog: pytest.LogCaptureFixture, *, in_fragments: bool
) -> None:
    config = {"providers": {"demo": {"type": "demo"}}, "models": {"m": {"provider": "demo"}}}
    async with serving_here(config) as port, connect(f"ws://127.0.0.1:{port}/v1/responses") as socket:
        message = [b'{"a": "', b'\xff"}'] if in_fragments else b'{"a": "\xff"}'
        await socket.send(message, text=True)
        with pytest.raises(ConnectionClosedError) as closed:
            await socket.recv()
    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1007, "the message is not UTF-8 text: byte 7")
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
