"""The store of grants, as a protocol: the tokens by which people let the gateway use MCP servers for them."""

from typing import NamedTuple, Protocol


class StoredGrant(NamedTuple):
    """The sealed tokens of a server. `version` increases with each change."""

    sealed: str
    version: int


class GrantStore(Protocol):
    """Stores one grant per server of the configuration. All methods raise StoreUnavailable."""

    async def load_grant(self, server: str) -> StoredGrant | None:
        """Returns the grant of a server; None if there is none."""
        ...

    async def store_grant(self, server: str, sealed: str) -> None:
        """Stores a new grant in place of any other, also if that is locked."""
        ...

    async def lock_grant(self, server: str, version: int, lease_s: float) -> bool:
        """Locks a grant of this version for `lease_s` seconds. False if it is locked, or has another version."""
        ...

    async def replace_grant(self, server: str, sealed: str, version: int) -> bool:
        """Replaces a grant of this version, and unlocks it. False if it has another version."""
        ...

    async def unlock_grant(self, server: str, version: int) -> None:
        """Unlocks a grant of this version, unchanged."""
        ...
