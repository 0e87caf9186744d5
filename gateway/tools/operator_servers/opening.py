"""Opens the operator's servers, and the store that they need, for the time of one command."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import NamedTuple

from gateway.config.mcp_server_settings import McpServerSettings
from gateway.config.settings import Settings
from gateway.sealing.sealer import Sealer
from gateway.state.store import Store
from gateway.tools.operator_servers.servers import OperatorServers


class OpenStore(NamedTuple):
    """The store, and the sealer for its grants."""

    store: Store
    sealer: Sealer


@asynccontextmanager
async def open_servers(
    settings: Settings, *, with_added: bool = True, ignores_pins: bool = False
) -> AsyncGenerator[OperatorServers, None]:
    """Yields the configured servers, and ends them with the block. The store is opened if one of them needs it.

    `with_added` includes the servers that were added over the API. `ignores_pins`: no tool is held back because of its
    definition. Raises StoreUnavailable and SchemaMismatch.
    """
    if ignores_pins:
        unpinned = _without_pins(settings.tools.mcp.servers)
        mcp = settings.tools.mcp.model_copy(update={"servers": unpinned})
        settings = settings.model_copy(update={"tools": settings.tools.model_copy(update={"mcp": mcp})})
    may_be_added = with_added and settings.auth is not None and any(key.admin for key in settings.auth.keys)
    async with open_store(settings, is_used=may_be_added) as open_state:
        servers = OperatorServers(settings.tools.mcp, settings.egress, *(open_state or ()))
        try:
            if open_state is not None and may_be_added:
                from gateway.tools.operator_servers.added_servers import AddedServers

                added = AddedServers(open_state.store.added_servers, settings.sealing.secrets, settings.egress, servers)
                await added.refresh(connects=False)
                if ignores_pins:
                    own = {label: own for label, own in servers.configured.items() if servers.is_added(label)}
                    servers.use_added(_without_pins(own), {}, connects=False)
            yield servers
        finally:
            await servers.aclose()


@asynccontextmanager
async def open_store(settings: Settings, *, is_used: bool = False) -> AsyncGenerator[OpenStore | None, None]:
    """Opens the store for a command. Yields None if there is none, and if no server needs it.

    `is_used`: the store may hold added servers. A missing database file is not created for them.
    """
    logins = [own for own in settings.tools.mcp.servers.values() if own.auth.oauth and own.auth.oauth.grant == "login"]
    if settings.store.url is None or not (logins or is_used):
        yield None
        return
    from gateway.state.database.sqlite_file import sqlite_path_of
    from gateway.state.sql.store import SqlStore

    file = sqlite_path_of(settings.store.url)
    if not logins and file is not None and not file.exists():
        yield None
        return
    async with aclosing(SqlStore(settings.store, settings.background)) as store:
        await store.open()
        yield OpenStore(store, Sealer(settings.sealing.secrets, lambda: store.sealing_key))


def _without_pins(servers: Mapping[str, McpServerSettings]) -> dict[str, McpServerSettings]:
    return {label: own.model_copy(update={"pins": None}) for label, own in servers.items()}
