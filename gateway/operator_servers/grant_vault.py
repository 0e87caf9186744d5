"""Keeps the grants of MCP servers in the store, sealed."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Final, NamedTuple

import orjson

from gateway.config.settings import Settings
from gateway.errors import StoreUnavailable
from gateway.mcp.errors import McpFault
from gateway.mcp.oauth.grants import TokenGrant
from gateway.sealing.sealer import Sealer, UnsealFailed
from gateway.state.grants import GrantStore

_PURPOSE: Final = "mcp grant of "
"""What the seal is bound to, with the name of the server. No key has such a name with a space."""

_UNAVAILABLE: Final = "the store with its tokens is unavailable"


class SealedGrant:
    """Implements `GrantVault` over the store."""

    def __init__(self, label: str, store: GrantStore, sealer: Sealer) -> None:
        self._label = label
        self._store = store
        self._sealer = sealer

    async def load(self) -> tuple[TokenGrant, int] | None:
        try:
            stored = await self._store.load_grant(self._label)
            if stored is None:
                return None
            return TokenGrant(
                **orjson.loads(self._sealer.unseal(stored.sealed, _PURPOSE + self._label))
            ), stored.version
        except UnsealFailed:
            return None
        except StoreUnavailable:
            raise McpFault("authorization_failed", _UNAVAILABLE) from None

    async def lock(self, version: int, lease_s: float) -> bool:
        try:
            return await self._store.lock_grant(self._label, version, lease_s)
        except StoreUnavailable:
            raise McpFault("authorization_failed", _UNAVAILABLE) from None

    async def replace(self, grant: TokenGrant, version: int) -> None:
        try:
            await self._store.replace_grant(self._label, self._seal(grant), version)
        except StoreUnavailable:
            raise McpFault("authorization_failed", _UNAVAILABLE) from None

    async def unlock(self, version: int) -> None:
        try:
            await self._store.unlock_grant(self._label, version)
        except StoreUnavailable:
            raise McpFault("authorization_failed", _UNAVAILABLE) from None

    async def store(self, grant: TokenGrant) -> None:
        """Stores a new grant in the place of any other. Raises McpFault."""
        try:
            await self._store.store_grant(self._label, self._seal(grant))
        except StoreUnavailable:
            raise McpFault("authorization_failed", _UNAVAILABLE) from None

    def _seal(self, grant: TokenGrant) -> str:
        sealed = self._sealer.seal(orjson.dumps(grant._asdict()), _PURPOSE + self._label)
        if sealed is None:
            raise McpFault("authorization_failed", _UNAVAILABLE)
        return sealed


class OpenStore(NamedTuple):
    """A store of grants, and the sealer for it."""

    grants: GrantStore
    sealer: Sealer


@asynccontextmanager
async def open_grant_store(settings: Settings) -> AsyncGenerator[OpenStore | None, None]:
    """Opens the store for a command. Yields None if there is none, or if no server needs it."""
    logins = [own for own in settings.tools.mcp.servers.values() if own.auth.oauth and own.auth.oauth.grant == "login"]
    if settings.store.url is None or not logins:
        yield None
        return
    from gateway.state.sql.store import SqlStore

    async with aclosing(SqlStore(settings.store, settings.background)) as store:
        await store.open()
        yield OpenStore(store, Sealer(settings.sealing.secrets, lambda: store.sealing_key))
