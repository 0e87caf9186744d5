"""Opens the operator's servers for a command, which uses them for a moment."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from gateway.config.settings import Settings
from gateway.operator_servers.grant_vault import open_grant_store
from gateway.operator_servers.servers import OperatorServers


@asynccontextmanager
async def open_servers(settings: Settings) -> AsyncGenerator[OperatorServers, None]:
    """Yields the configured servers, and ends them with the block. The store is opened if one of them needs it.

    Raises StoreUnavailable and SchemaMismatch.
    """
    async with open_grant_store(settings) as store:
        servers = OperatorServers(settings.tools.mcp, settings.egress, *(store or ()))
        try:
            yield servers
        finally:
            await servers.aclose()
