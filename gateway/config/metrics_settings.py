"""The section `metrics`: figures for Prometheus."""

from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError


class MetricsSettings(BaseModel):
    """Figures for Prometheus at `/metrics` (docs/operations.md)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(default=True, description="Whether requests are counted, and `/metrics` is served.")
    listen: str | None = Field(
        default=None,
        description="An address `HOST:PORT` of its own for `/metrics`, such as `127.0.0.1:9464`, which needs no key. "
        "If left out, it is on the main port: with `auth` for keys with `admin: true`, otherwise open.",
    )

    @field_validator("listen")
    @classmethod
    def _check_address(cls, address: str | None) -> str | None:
        if address is not None and split_address(address) is None:
            raise PydanticCustomError("address", "write HOST:PORT, such as 127.0.0.1:9464 or [::1]:9464")
        return address

    @property
    def address(self) -> tuple[str, int] | None:
        """The host and port of the own listener; None without one."""
        return None if self.listen is None else split_address(self.listen)


def split_address(address: str) -> tuple[str, int] | None:
    """Returns the host and the port of `HOST:PORT`; None if it is no such text."""
    try:
        parts = urlsplit(f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    is_address = host and port is not None and not (parts.path or parts.query or parts.fragment or parts.username)
    return (host, port) if is_address and host is not None and port is not None else None
