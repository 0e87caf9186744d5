"""Implements the command `mcp login`: a person authorizes the gateway in a browser to use an MCP server."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final
from urllib.parse import parse_qs, urlsplit

from gateway.config.settings import Settings
from gateway.tools.mcp.errors import McpFault
from gateway.tools.mcp.oauth.grants import LoginRequest
from gateway.tools.operator_servers.building import build_authorization_server
from gateway.tools.operator_servers.grant_vault import SealedGrant
from gateway.tools.operator_servers.opening import open_store

_PATH: Final = "/callback"
_HEAD_BYTES: Final = 16 * 1024
_DONE: Final = "You are logged in. This page can be closed."
_FAILED: Final = "The login failed. The command shows the reason."


async def log_in(settings: Settings, label: str, port: int, show_url: Callable[[str], None], deadline_s: float) -> None:
    """Waits for the login of a person, and stores the tokens. Raises McpFault and StoreUnavailable.

    `show_url` is called with the address that the person opens. The browser is redirected to `port` of this machine; 0
    is any free port.
    """
    issuer = build_authorization_server(settings.tools.mcp.servers[label], settings.egress)
    async with open_store(settings) as open_state:
        if open_state is None:
            raise McpFault("authorization_failed", "there is no store for the tokens: write store.url")
        answer: asyncio.Future[dict[str, list[str]]] = asyncio.get_running_loop().create_future()
        listener = await asyncio.start_server(partial(_receive, answer), "127.0.0.1", port)
        try:
            own_port = listener.sockets[0].getsockname()[1]
            login = LoginRequest(issuer, f"http://127.0.0.1:{own_port}{_PATH}")
            show_url(await login.build_url())
            async with asyncio.timeout(deadline_s):
                query = await answer
        except TimeoutError:
            raise McpFault("authorization_failed", f"nobody logged in within {deadline_s:g} s") from None
        finally:
            listener.close()
        if query.get("state") != [login.state]:
            raise McpFault("authorization_failed", "the answer belongs to another login")
        if "code" not in query:
            raise McpFault(
                "authorization_failed", f"the login was refused: {query.get('error', ['no reason'])[0]:.100}"
            )
        grant = await login.exchange(query["code"][0])
        await SealedGrant(label, open_state.store.grants, open_state.sealer).store(grant)


async def _receive(
    answer: "asyncio.Future[dict[str, list[str]]]", reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Reads one request of the browser. Only the address for the answer does not get status 404."""
    try:
        line = (await reader.readuntil(b"\r\n"))[:_HEAD_BYTES].decode("latin-1")
        target = urlsplit(line.split(" ")[1]) if line.count(" ") == 2 else urlsplit("")
        if target.path != _PATH:
            writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            return
        query = parse_qs(target.query)
        text = (_DONE if "code" in query else _FAILED).encode()
        head = (
            f"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {len(text)}\r\nconnection: close\r\n\r\n"
        )
        writer.write(head.encode() + text)
        if not answer.done():
            answer.set_result(query)
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return
    finally:
        writer.close()
