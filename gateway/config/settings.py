"""Everything an operator can set, and the only place that reads the environment."""

import asyncio
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator
from pydantic_core import PydanticCustomError

from gateway.config import yaml_file
from gateway.config.checks import validate_settings
from gateway.config.model_config import ModelConfig, NonEmptyText
from gateway.config.yaml_file import Document
from providers.config import Number, ProviderConfig, WholeNumber

ReasoningField = Literal["reasoning_content", "reasoning"]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CorsSettings(_Section):
    """Which web pages may call the gateway from a browser."""

    origins: tuple[NonEmptyText, ...] = Field(
        min_length=1, description="Origins such as `https://app.example.com`; `*` is every page."
    )


class ServerSettings(_Section):
    """How the server listens and what it accepts."""

    host: NonEmptyText = Field(
        default="127.0.0.1", description="The address to listen on. Others than this machine need `auth.keys`."
    )
    port: WholeNumber = Field(default=8080, ge=0, le=65535, description="The port to listen on; 0 takes a free one.")
    workers: WholeNumber = Field(default=1, ge=1, le=256, description="Server processes that share the port.")
    max_body_mb: Number = Field(default=32.0, gt=0, description="The largest request body, in MiB.")
    max_json_depth: WholeNumber = Field(
        default=200, ge=1, le=900, description="How deep a request's JSON may be nested."
    )
    keepalive_s: Number = Field(
        default=15.0, gt=0, description="Seconds of silence after which a stream gets a comment."
    )
    drain_s: Number = Field(
        default=20.0, ge=0, description="Seconds that open streams get to finish once the server is told to stop."
    )
    tcp_nodelay: bool = Field(
        default=True,
        description="Send each delta at once. `false` lets the system gather small ones until the client has "
        "acknowledged earlier ones: less processor time for streams of a thousand deltas a second, but each delta "
        "waits longer, some for 40 ms.",
    )
    cors: CorsSettings | None = Field(
        default=None, description="Which web pages may call the gateway; none if left out."
    )
    reasoning_fields: tuple[ReasoningField, ...] = Field(
        default=("reasoning_content", "reasoning"),
        description="Fields that carry the model's reasoning in chat replies: one, the other, both, or none (`[]`).",
    )


_DATABASE_PREFIXES = ("sqlite+aiosqlite:///", "postgresql+asyncpg://")


class StoreSettings(_Section):
    """Where responses, conversations and completions are kept."""

    url: str | None = Field(
        default="sqlite+aiosqlite:///responses-gateway.db",
        description="The database: `sqlite+aiosqlite:///FILE` for one machine, `postgresql+asyncpg://USER:PASSWORD@HOST/"
        "NAME` for many replicas, `null` to keep nothing.",
    )
    ttl_days: Number = Field(default=30.0, gt=0, description="How long what is stored is kept, in days.")
    events_hours: Number = Field(
        default=24.0, gt=0, description="How long the stream of a finished response can still be replayed, in hours."
    )
    sweep_s: Number = Field(
        default=600.0, gt=0, description="Seconds between two searches for what is to be forgotten."
    )
    deadline_s: Number = Field(
        default=5.0, gt=0, description="Seconds the database has for one transaction before it counts as down."
    )
    poll_s: Number = Field(
        default=0.5, gt=0, description="Seconds between two looks at the database where nothing tells of changes."
    )

    @field_validator("url")
    @classmethod
    def _refuse_unknown_databases(cls, url: str | None) -> str | None:
        if url is None:
            return None
        file = url.removeprefix(_DATABASE_PREFIXES[0]).partition("?")[0]
        # Every connection of a database in memory has one of its own.
        if not url.startswith(_DATABASE_PREFIXES) or file in ("", ":memory:"):
            raise PydanticCustomError("store", "write sqlite+aiosqlite:///FILE, postgresql+asyncpg://... or null")
        return url


_MIN_KEY_CHARS = 32


class SealingSettings(_Section):
    """Keys for what clients carry that only the gateway may open: `encrypted_content` of reasoning items."""

    keys: tuple[SecretStr, ...] = Field(
        default=(),
        description="The first seals, all open. Without any, one is made and kept in the store.",
    )
    keys_env: str | None = Field(
        default=None, description="The environment variable that holds them, with commas between."
    )

    @field_validator("keys", mode="before")
    @classmethod
    def _split_keys(cls, keys: Any) -> Any:
        return [key for key in re.split(r"[,\s]+", keys) if key] if isinstance(keys, str) else keys

    @field_validator("keys")
    @classmethod
    def _refuse_short_keys(cls, keys: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        if any(len(key.get_secret_value()) < _MIN_KEY_CHARS for key in keys):
            raise PydanticCustomError(
                "sealing", "write keys of at least 32 characters, such as `openssl rand -base64 32` makes"
            )
        return keys

    @property
    def secrets(self) -> tuple[bytes, ...]:
        """The keys in the clear."""
        return tuple(key.get_secret_value().encode() for key in self.keys)


class BackgroundSettings(_Section):
    """Responses that run without a client waiting: `background: true`, and streams that can be resumed."""

    max_running: WholeNumber = Field(
        default=64, ge=1, description="How many run at once in one server process; the others are queued."
    )
    lease_s: Number = Field(
        default=15.0, gt=0, description="Seconds after which the work of a replica that gives no sign is taken over."
    )
    max_attempts: WholeNumber = Field(
        default=3, ge=1, description="How often a response is begun before it fails; 1 never begins one again."
    )


class WebSocketSettings(_Section):
    """The WebSocket transport of `/v1/responses`."""

    max_minutes: Number = Field(default=60.0, gt=0, description="Minutes after which a connection is closed.")
    max_connections: WholeNumber = Field(
        default=1000, ge=1, description="Connections open at once in one server process."
    )


class EgressSettings(_Section):
    """What is fetched of URLs that requests hold: only from the public internet, and never by an engine itself."""

    allow: tuple[NonEmptyText, ...] = Field(
        default=(), description="Hosts of your own that may be fetched from though they are not of the public internet."
    )
    max_mb: Number = Field(
        default=20.0, gt=0, description="The largest thing that is fetched, in MiB; for one request three times that."
    )
    deadline_s: Number = Field(default=30.0, gt=0, description="Seconds for all that one request has fetched.")


_MAX_NAME_CHARS = 255


class ApiKeySettings(_Section):
    """One key that clients may send."""

    name: NonEmptyText = Field(
        description="What the logs call whoever holds the key. It is also the owner of all that is kept for the key, "
        "which finds none of it under another name."
    )
    key: Annotated[SecretStr, Field(min_length=1)] = Field(
        description="The key itself; with `key_env` it is read from the environment instead."
    )
    key_env: str | None = Field(default=None, description="The environment variable that holds the key.")
    models: tuple[NonEmptyText, ...] = Field(default=("*",), description="Names and patterns of the models it may use.")

    @field_validator("name")
    @classmethod
    def _refuse_unstorable_names(cls, name: str) -> str:
        if len(name) > _MAX_NAME_CHARS or not name.isprintable():
            raise PydanticCustomError("name", "write at most 255 characters, all of which print")
        return name

    @property
    def secret(self) -> str:
        """The key in the clear."""
        return self.key.get_secret_value()


class AuthSettings(_Section):
    """Who may use the gateway. Without this section it is open, and listens on this machine only."""

    keys: tuple[ApiKeySettings, ...] = Field(min_length=1, description="The keys that are accepted as bearer tokens.")

    @field_validator("keys")
    @classmethod
    def _refuse_duplicates(cls, keys: tuple[ApiKeySettings, ...]) -> tuple[ApiKeySettings, ...]:
        names, secrets = [key.name for key in keys], [key.secret for key in keys]
        if name := next((name for name in names if names.count(name) > 1), None):
            raise PydanticCustomError("twins", "two keys are named {name}; give each its own name", {"name": name})
        if name := next((key.name for key in keys if secrets.count(key.secret) > 1), None):
            raise PydanticCustomError("twins", "{name} has the same key as another; give each its own", {"name": name})
        return keys


class Settings(_Section):
    """The whole configuration. `load` and `parse` make one; they check more than the fields can."""

    server: ServerSettings = Field(default=ServerSettings(), description="How the server listens and what it accepts.")
    store: StoreSettings = Field(
        default=StoreSettings(), description="Where responses, conversations and completions are kept."
    )
    sealing: SealingSettings = Field(
        default=SealingSettings(), description="Keys for what clients carry that only the gateway may open."
    )
    background: BackgroundSettings = Field(
        default=BackgroundSettings(), description="Responses that run without a client waiting for them."
    )
    websocket: WebSocketSettings = Field(
        default=WebSocketSettings(), description="The WebSocket transport of `/v1/responses`."
    )
    egress: EgressSettings = Field(default=EgressSettings(), description="What is fetched of URLs that requests hold.")
    auth: AuthSettings | None = Field(default=None, description="Who may use the gateway; anyone if left out.")
    providers: dict[NonEmptyText, ProviderConfig] = Field(
        default_factory=dict, description="The upstreams, each under a name of your choice."
    )
    models: dict[NonEmptyText, ModelConfig] = Field(
        default_factory=dict,
        description="What clients may ask for: names, or patterns with `*` and `?`. The first match wins.",
    )


def load_settings(
    path: Path, *, server: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None
) -> Settings:
    """The settings in a YAML file, with `server` over its section of that name.

    Raises ConfigError naming everything that is wrong.
    """
    return _validate_document(yaml_file.read_yaml(path), server, environ, str(path))


def parse_settings(
    tree: Mapping[str, Any],
    *,
    server: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    source: str = "settings",
) -> Settings:
    """The same for plain values, as a YAML file would hold them. `source` is what errors call them."""
    return _validate_document(Document(dict(tree), {}), server, environ, source)


def discover_settings(*, server: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Settings for a machine without a file: made of the keys and servers it has. Takes a second or so."""
    from gateway.config.discovery import (
        discover_config,  # brings the HTTP client along, which a checked file does not need
    )

    environ = os.environ if environ is None else environ
    return parse_settings(
        asyncio.run(discover_config(environ)), server=server, environ=environ, source="without a config file"
    )


def _validate_document(
    document: Document, server: Mapping[str, Any] | None, environ: Mapping[str, str] | None, source: str
) -> Settings:
    section = document.tree.get("server")
    if server and (section is None or isinstance(section, dict)):
        document = Document({**document.tree, "server": {**(section or {}), **server}}, document.lines)
    return validate_settings(Settings, document, os.environ if environ is None else environ, source)
