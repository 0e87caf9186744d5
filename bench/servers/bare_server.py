"""A server with one route on FastAPI and uvicorn, the baseline for the gateway's start. It runs as a process."""

import socket

import uvicorn
from fastapi import FastAPI

from bench.servers.processes import announce

_app = FastAPI()


@_app.get("/healthz")
async def healthz() -> dict[str, str]:
    return {"status": "ok"}


class AnnouncingServer(uvicorn.Server):
    """Prints its address once it listens."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        assert sockets is not None
        announce(sockets[0].getsockname()[1])


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    AnnouncingServer(uvicorn.Config(_app, loop="uvloop", http="httptools", log_level="warning")).run(sockets=[listener])


if __name__ == "__main__":
    main()
