"""Runs the gateway in a thread of this process, on a loopback port, for the time of a block."""

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from gateway.config.settings import Settings
from gateway.process.server import make_server
from providers.base import Provider

_STOP_TIMEOUT_S: Final = 30.0


class GatewayNotStarted(Exception):
    """The gateway did not start. The log has the reason."""


@contextmanager
def serve_locally(settings: Settings, providers: Mapping[str, Provider], start_timeout_s: float) -> Iterator[str]:
    """Starts the gateway and yields its URL once its engines have started or failed. The block's end stops it.

    It runs in a thread of its own, so that the checks do not delay it. Raises GatewayNotStarted, also if it has not
    started after `start_timeout_s` seconds.
    """
    ready = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = make_server(settings, ready.set, providers=providers)

        def run() -> None:
            try:
                server.run(sockets=[listener])
            finally:
                ready.set()

        thread = threading.Thread(target=run, name="gateway", daemon=True)
        thread.start()
        try:
            if not ready.wait(start_timeout_s):
                raise GatewayNotStarted(f"the gateway did not start in {start_timeout_s:g} s")
            if not thread.is_alive() or not server.started:
                raise GatewayNotStarted("the gateway did not start")
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(_STOP_TIMEOUT_S)
