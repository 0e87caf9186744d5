"""Stores the grants of MCP servers, sealed."""

from typing import Final

import orjson

from gateway.errors import StoreUnavailable
from gateway.sealing.sealer import Sealer, UnsealFailed
from gateway.state.operator_records import GrantStore
from gateway.state.store import retry_write
from gateway.tools.mcp.errors import McpFault
from gateway.tools.mcp.oauth.grants import TokenGrant

_PURPOSE: Final = "mcp grant of "
"""The purpose of the seal, with the name of the server. The space keeps it apart from the names of keys."""

_MAX_OUTAGE_S: Final = 10.0
"""How long storing refreshed tokens is repeated. It ends before the lock of their refresh."""

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
        sealed = self._seal(grant)

        async def replace() -> None:
            await self._store.replace_grant(self._label, sealed, version)

        try:
            await retry_write(replace, _MAX_OUTAGE_S)
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
