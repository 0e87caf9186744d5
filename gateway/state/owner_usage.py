"""What one owner has in the store, for the limits of an owner."""

from typing import NamedTuple, Protocol


class OwnerUsage(NamedTuple):
    """The jobs of an owner that have not ended, and the bytes of all its event logs."""

    jobs: int
    log_bytes: int


class OwnerMeter(Protocol):
    """Measures what owners have in the store."""

    async def measure_owner(self, owner: str) -> OwnerUsage:
        """Count the jobs of an owner and the bytes of its event logs. Raises StoreUnavailable."""
        ...
