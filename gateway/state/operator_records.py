"""The stores of what belongs to the operator: MCP servers that were added over the API, and tokens of MCP servers."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias

AddResult: TypeAlias = Literal["added", "replaced", "prefix_taken", "too_many"]


class StoredServer(NamedTuple):
    """An added server. `settings` and `sealed` are JSON; `sealed` has the credentials too, and is encrypted.

    `prefix` begins the names of its tools, in lower case; None without a prefix. `added_by` is the name of a key.
    """

    label: str
    prefix: str | None
    settings: str
    sealed: str | None
    added_by: str


class AddedServerStore(Protocol):
    """Stores the servers that were added, by their labels. All methods raise StoreUnavailable."""

    async def load_added_servers(self) -> Sequence[StoredServer]:
        """Returns all servers, in the order of their labels."""
        ...

    async def store_added_server(self, server: StoredServer, max_servers: int) -> AddResult:
        """Stores a server. It replaces a server with the same label.

        Nothing is stored if another one has its prefix, or if there are `max_servers` others.
        """
        ...

    async def replace_added_server(self, old: StoredServer, new: StoredServer) -> bool:
        """Replaces the settings of a server if they are still those of `old`. Returns whether they were."""
        ...

    async def delete_added_server(self, label: str) -> bool:
        """Deletes a server. Returns whether it existed."""
        ...


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
