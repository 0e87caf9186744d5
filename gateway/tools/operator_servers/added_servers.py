"""The MCP servers that administrators add over the API. They are stored, and used by every process with the store."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

import orjson
import structlog

from gateway.config.mcp_server_settings import McpServerSettings
from gateway.config.settings import EgressSettings
from gateway.config.tool_settings import AdminServerSettings
from gateway.errors import NotFound, ServerNameTaken
from gateway.logs import log_round_faults
from gateway.sealing.sealer import Sealer, UnsealFailed
from gateway.state.operator_records import AddedServerStore, StoredServer
from gateway.tools.operator_servers.building import build_operator_egress
from gateway.tools.operator_servers.server_bodies import (
    find_credential,
    has_open_query,
    hide_credentials,
    read_server_settings,
)
from gateway.tools.operator_servers.servers import OperatorServers, UnusableReason
from providers.egress import EgressRefused
from translation.errors import InvalidRequest
from translation.representation.json_types import Json

_log = structlog.get_logger(__name__)

_RESOLVE_S: Final = 5.0
"""The deadline for resolving the address of a new server."""

_PURPOSE: Final = "mcp server "
"""The purpose of the seal, with the label of the server. The space keeps it apart from the names of keys."""


class AddedServers:
    """Adds servers to the configured servers, and removes them again.

    `keys` are the sealing keys of the configuration. A key from the same database would protect nothing.
    """

    def __init__(
        self, store: AddedServerStore, keys: Sequence[bytes], egress: EgressSettings, servers: OperatorServers
    ) -> None:
        self._store = store
        self._sealer = Sealer(keys)
        self._egress = egress
        self._servers = servers
        self._rows: Sequence[StoredServer] = ()
        self._lock = asyncio.Lock()

    async def refresh(self, *, connects: bool = True) -> None:
        """Uses the servers that are in the store now. Unchanged servers keep running.

        With `connects` new servers are connected at once. Raises StoreUnavailable.
        """
        async with self._lock:
            rows = await self._store.load_added_servers()
            if rows == self._rows:
                return
            added: dict[str, McpServerSettings] = {}
            unreadable: dict[str, UnusableReason] = {}
            for row in rows:
                own = self._read_server(row)
                if isinstance(own, McpServerSettings):
                    added[row.label] = own
                    await self._seal_query(row, own)
                else:
                    unreadable[row.label] = own
            self._rows = rows
            self._servers.use_added(added, unreadable, connects=connects)

    @asynccontextmanager
    async def follow(self, get_settings: Callable[[], AdminServerSettings]) -> AsyncGenerator[None, None]:
        """Uses the servers in the store, and follows the changes of other processes until the block ends.

        During an outage of the store, the servers remain in use.
        """
        await self._try_refresh(connects=False)
        async with asyncio.TaskGroup() as tasks:
            polling = tasks.create_task(self._poll(get_settings))
            try:
                yield
            finally:
                polling.cancel()

    async def _poll(self, get_settings: Callable[[], AdminServerSettings]) -> None:
        while True:
            await asyncio.sleep(get_settings().poll_s)
            await self._try_refresh(connects=True)

    async def _try_refresh(self, *, connects: bool) -> None:
        with log_round_faults(_log, "mcp_servers_not_read"):
            await self.refresh(connects=connects)

    async def add(self, label: str, body: Json, key: str, settings: AdminServerSettings) -> bool:
        """Stores a server, and uses it at once. Returns whether its label is new. `key` is the name of the
        administrator's key.

        Raises InvalidRequest for settings that cannot be used, ServerNameTaken, and StoreUnavailable.
        """
        own = read_server_settings(label, body)
        await self.refresh()
        if (problem := self._servers.find_name_problem(label, own)) is not None:
            raise ServerNameTaken(problem)
        sealed = self._seal_settings(label, own, body)
        await self._check_address(own, settings)
        prefix = own.resolve_prefix(label)
        public = orjson.dumps(hide_credentials(own)).decode()
        row = StoredServer(label, prefix.casefold() or None, public, sealed, key)
        result = await self._store.store_added_server(row, settings.max_servers)
        if result == "prefix_taken":
            raise ServerNameTaken(f"another server has the label {label!r} or the prefix {prefix!r}")
        if result == "too_many":
            raise ServerNameTaken(
                f"{settings.max_servers} servers have been added, which is the limit (tools.mcp.admin.max_servers)"
            )
        _log.info("mcp_server_added", server=label, host=own.host, key=key, replaced=result == "replaced")
        await self.refresh()
        return result == "added"

    async def remove(self, label: str, key: str) -> None:
        """Removes a server that was added. Its calls finish as after a reload.

        Raises NotFound, ServerNameTaken for a server of the configuration file, and StoreUnavailable.
        """
        if not await self._store.delete_added_server(label):
            if label in self._servers.configured and not self._servers.is_added(label):
                raise ServerNameTaken(f"{label} is a server of the configuration file: remove it there, and reload")
            raise NotFound(f"there is no MCP server {label!r}")
        _log.info("mcp_server_removed", server=label, key=key)
        await self.refresh()

    def describe_settings(self, label: str) -> Json | None:
        """Returns the settings of an added server without credentials; None for any other."""
        row = next((row for row in self._rows if row.label == label), None)
        if row is None:
            return None
        own = self._read_server(row)
        return hide_credentials(own) if isinstance(own, McpServerSettings) else orjson.loads(row.settings)

    async def _seal_query(self, row: StoredServer, own: McpServerSettings) -> None:
        """Seals the query of a server's address, which is a credential and which older versions stored in clear.

        Raises StoreUnavailable.
        """
        if not has_open_query(own, orjson.loads(row.settings)):
            return
        sealed = row.sealed or self._sealer.seal(row.settings.encode(), _PURPOSE + row.label)
        if sealed is None:
            _log.warning("mcp_server_seal_failed", server=row.label, hint="write sealing.keys")
            return
        public = orjson.dumps(hide_credentials(own)).decode()
        await self._store.replace_added_server(row, row._replace(settings=public, sealed=sealed))

    def _seal_settings(self, label: str, own: McpServerSettings, body: Json) -> str | None:
        """Returns the encrypted settings of a server with credentials; None for one without."""
        if (credential := find_credential(own)) is None:
            return None
        sealed = self._sealer.seal(orjson.dumps(body), _PURPOSE + label)
        if sealed is None:
            raise InvalidRequest(
                "credentials are only stored encrypted, and the configuration has no sealing.keys: write some, or "
                "write this server into the configuration file",
                param=credential,
                code="unsupported_parameter",
            )
        return sealed

    def _read_server(self, row: StoredServer) -> McpServerSettings | UnusableReason:
        try:
            content = row.settings if row.sealed is None else self._sealer.unseal(row.sealed, _PURPOSE + row.label)
            return read_server_settings(row.label, orjson.loads(content))
        except UnsealFailed:
            return "credentials_unavailable"
        except InvalidRequest:
            return "invalid_settings"

    async def _check_address(self, own: McpServerSettings, settings: AdminServerSettings) -> None:
        """Raises InvalidRequest for an address that may not be reached. The guard checks each connection again."""
        url = urlsplit(own.address)
        guard = build_operator_egress(own, self._egress, may_be_private=settings.private_hosts)
        try:
            async with asyncio.timeout(_RESOLVE_S):
                await guard.resolve(url.scheme, url.hostname or "", url.port)
        except (EgressRefused, TimeoutError) as error:
            reason = str(error) or "the URL's host cannot be resolved"
            raise InvalidRequest(
                f"{reason}; added servers may have private addresses only if egress.allow or "
                "tools.mcp.admin.private_hosts allows them",
                param="url" if own.sse is None else "sse",
                code="address_not_allowed",
            ) from None
