"""The sections `metrics` and `tracing`: figures for Prometheus, and traces for OpenTelemetry."""

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any, Final
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator
from pydantic_core import PydanticCustomError

from gateway.config.model_config import NonEmptyText
from gateway.config.yaml_file import Problem
from providers.overrides import Number

_PACKAGE: Final = "opentelemetry.exporter.otlp.proto.http"

DEFAULT_SERVICE: Final = "responses-gateway"


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


class TracingSettings(BaseModel):
    """Traces for OpenTelemetry (docs/traces.md). Needs the extra `tracing`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    endpoint: NonEmptyText | None = Field(
        default=None,
        description="The base URL of the collector, such as `http://collector:4318`, which receives OTLP over HTTP at "
        "`/v1/traces` below it. The default is that of the variables `OTEL_EXPORTER_OTLP_*`.",
    )
    headers: dict[NonEmptyText, SecretStr] = Field(
        default={}, description="Headers that the collector gets, such as one with a key."
    )
    sample: Number = Field(
        default=0.01,
        ge=0,
        le=1,
        description="The share of requests that is traced. A request with `traceparent` is traced as its caller says.",
    )
    slow_s: Number | None = Field(
        default=None,
        gt=0,
        description="Requests without `traceparent` that take longer are traced in any case, as those that fail.",
    )
    service: NonEmptyText | None = Field(
        default=None,
        description="The name of the service in the traces. The default is `OTEL_SERVICE_NAME`, else "
        "`responses-gateway`.",
    )

    @field_validator("endpoint")
    @classmethod
    def _check_url(cls, url: str | None) -> str | None:
        if url is not None and not url.startswith(("http://", "https://")):
            raise PydanticCustomError("url", "write a URL with http:// or https://")
        return url


def check_tracing_package(tree: Mapping[str, Any]) -> Iterator[Problem]:
    """Yields a problem if traces are configured without the package. `tree` is the unvalidated configuration."""
    if tree.get("tracing") is not None and not _is_installed():
        yield Problem(("tracing",), 'OpenTelemetry is not installed: pip install "responses-gateway[tracing]"')


def _is_installed() -> bool:
    try:
        return find_spec(_PACKAGE) is not None
    except ModuleNotFoundError:  # a package above it
        return False
