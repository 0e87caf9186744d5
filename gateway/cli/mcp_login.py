"""Implements the command `mcp login`: a person authorizes the gateway in a browser to use an MCP server."""

import asyncio
import hmac
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final
from urllib.parse import parse_qs, urlsplit

from gateway.config.settings import Settings
from gateway.http.cross_site import names_this_machine
from gateway.tools.mcp.errors import McpFault
from gateway.tools.mcp.oauth.grants import LoginRequest
from gateway.tools.operator_servers.building import build_authorization_server
from gateway.tools.operator_servers.grant_vault import SealedGrant
from gateway.tools.operator_servers.opening import open_store

_PATH: Final = "/callback"
_HEAD_BYTES: Final = 16 * 1024
_HEAD_S: Final = 10.0
_REPLY_S: Final = 2.0
"""Seconds in which the browser gets the outcome before the command ends."""

_DONE: Final = "You are logged in. This page can be closed."
_FAILED: Final = "The login failed. The command shows the reason."
_OTHER_LOGIN: Final = "This answer belongs to another login. The command waits for the answer to its own."


async def log_in(settings: Settings, label: str, port: int, show_url: Callable[[str], None], deadline_s: float) -> None:
    """Waits for the login of a person, and stores the tokens. Raises McpFault and StoreUnavailable.

    `show_url` is called with the address that the person opens. The browser is redirected to `port` of this machine; 0
    is any free port. An answer to another login is refused, and ends nothing.
    """
    issuer = build_authorization_server(settings.tools.mcp.servers[label], settings.egress)
    async with open_store(settings) as open_state:
        if open_state is None:
            raise McpFault("authorization_failed", "there is no store for the tokens: write store.url")
        page = _AnswerPage()
        listener = await asyncio.start_server(page.serve, "127.0.0.1", port, limit=_HEAD_BYTES)
        try:
            own_port = listener.sockets[0].getsockname()[1]
            login = LoginRequest(issuer, f"http://127.0.0.1:{own_port}{_PATH}")
            page.state = login.state
            show_url(await login.build_url())
            try:
                async with asyncio.timeout(deadline_s):
                    query = await page.answer
            except TimeoutError:
                raise McpFault("authorization_failed", f"nobody logged in within {deadline_s:g} s") from None
            if "code" not in query:
                reason = query.get("error", ["no reason"])[0]
                raise McpFault("authorization_failed", f"the login was refused: {reason:.100}")
            grant = await login.exchange(query["code"][0])
            await SealedGrant(label, open_state.store.grants, open_state.sealer).store(grant)
            page.outcome.set_result(_DONE)
        finally:
            await page.close()
            listener.close()


class _AnswerPage:
    """The address of this machine to which the browser brings the answer of the authorization server.

    The page that the person sees says how the login ended, so it is sent when that is known.
    """

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.state: str | None = None
        """The secret in the answer to this login; None before its address is known."""
        self.answer: asyncio.Future[Mapping[str, list[str]]] = loop.create_future()
        self.outcome: asyncio.Future[str] = loop.create_future()
        """What the page says about the login."""
        self._replies: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Replies to one request of a browser, and closes its connection."""
        if (task := asyncio.current_task()) is None:
            raise RuntimeError("a browser is replied to only in a task")
        self._replies.add(task)
        try:
            async with asyncio.timeout(_HEAD_S):
                head = await reader.readuntil(b"\r\n\r\n")
            status, text = await self._build_reply(head.decode("latin-1"))
            writer.write(
                f"HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {len(text)}\r\n"
                f"x-content-type-options: nosniff\r\nconnection: close\r\n\r\n{text}".encode()
            )
            await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return
        finally:
            self._replies.discard(task)
            writer.close()

    async def close(self) -> None:
        """Ends the open replies: those to the answer of this login say that it failed unless `outcome` is set."""
        if not self.outcome.done():
            self.outcome.set_result(_FAILED)
        if self._replies:
            await asyncio.wait(self._replies, timeout=_REPLY_S)

    async def _build_reply(self, head: str) -> tuple[str, str]:
        """Returns the status and the text of the reply to a request head.

        The answer comes from another site, which `Sec-Fetch-Site` would say, but as an address that the browser opens:
        without an `Origin`, and under the name of this machine.
        """
        first, *fields = head.split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
        if not names_this_machine(headers.get("host", "")):
            return "421 Misdirected Request", "This address has another name."
        if "origin" in headers:
            return "403 Forbidden", "Pages may not send requests to this address."
        method, _, rest = first.partition(" ")
        target = None
        with suppress(ValueError):
            target = urlsplit(rest.partition(" ")[0])
        if target is None or method != "GET" or target.path != _PATH:
            return "404 Not Found", "There is nothing here."
        query = parse_qs(target.query)
        state = query.get("state", [""])
        if self.state is None or not hmac.compare_digest(state[0].encode(), self.state.encode()):
            return "400 Bad Request", _OTHER_LOGIN
        if not self.answer.done():
            self.answer.set_result(query)
        return "200 OK", await asyncio.shield(self.outcome)
