"""The settings that an operator can write. The only module that reads the environment."""

import asyncio
import hashlib
import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import orjson
from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator
from pydantic_core import PydanticCustomError

from gateway.config import yaml_file
from gateway.config.auth_settings import AuthSettings, LimitSettings
from gateway.config.checks import find_fixed_changes, validate_settings
from gateway.config.env_file import read_env_file
from gateway.config.model_config import FamilyConfig, ModelConfig, NonEmptyText
from gateway.config.routing_settings import RoutingSettings
from gateway.config.storage_settings import FileSettings, find_url_problem
from gateway.config.telemetry_settings import MetricsSettings, TracingSettings
from gateway.config.tool_settings import ToolSettings
from gateway.config.yaml_file import ConfigError, Document
from providers.config import ProviderConfig
from providers.model_families import MODEL_FAMILIES, ModelFamily
from providers.overrides import Number, WholeNumber
from translation.chat.reasoning import ReasoningTextField

_HOST_NAME = re.compile(r"[A-Za-z0-9._-]+|(?=[^:]*:)[0-9A-Fa-f:.]+")
"""Matches a host name, or an address of IPv4 or IPv6."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CorsSettings(_Section):
    """The web pages that may call the gateway from a browser."""

    origins: tuple[NonEmptyText, ...] = Field(
        min_length=1,
        description="Origins such as `https://app.example.com`. `*` allows every page. A server without `auth.keys` "
        "refuses requests of all other origins.",
    )


class ServerSettings(_Section):
    """The addresses, limits and deadlines of the server."""

    host: NonEmptyText = Field(
        default="127.0.0.1",
        description="The address to listen on. An address that other machines can reach requires `auth.keys`.",
    )
    hosts: tuple[NonEmptyText, ...] = Field(
        default=(),
        description="Further names of this server, such as `gateway.example.com` behind a proxy. A server without "
        "`auth.keys` refuses requests for other names than these, `host` and those of this machine, because a web page "
        "can make a name of its own lead to this machine.",
    )
    port: WholeNumber = Field(default=8080, ge=0, le=65535, description="The port to listen on. 0 takes a free one.")
    workers: WholeNumber = Field(default=1, ge=1, le=256, description="Server processes that share the port.")
    max_body_mb: Number = Field(default=32.0, gt=0, description="The largest request body, in MiB.")
    max_form_lookahead_kb: Number = Field(
        default=1024.0,
        ge=1,
        le=16 * 1024,
        description="The largest part of a multipart form that is held in memory until its field `model` arrives, in "
        "KiB.",
    )
    max_json_depth: WholeNumber = Field(
        default=200, ge=1, le=900, description="The deepest nesting of a request's JSON."
    )
    max_head_kb: Number = Field(
        default=64.0,
        ge=1,
        le=1024,
        description="The largest head of a request, in KiB: its first line and its headers.",
    )
    max_head_fields: WholeNumber = Field(default=100, ge=10, le=10_000, description="The most headers of one request.")
    head_s: Number = Field(
        default=10.0,
        gt=0,
        description="Seconds in which the head of a request must arrive. A new connection that sends nothing is closed "
        "after the same time.",
    )
    body_s: Number = Field(
        default=60.0,
        gt=0,
        description="Seconds in which a JSON body must arrive, and the longest pause while a multipart form arrives.",
    )
    unread_s: Number = Field(
        default=120.0,
        gt=0,
        description="Seconds for which a client may read nothing of what waits for it. Then its connection is reset.",
    )
    form_s: Number = Field(default=600.0, gt=0, description="Seconds in which all of a multipart form must arrive.")
    max_json_values: WholeNumber = Field(
        default=100_000,
        ge=1000,
        description="The most values in a request's JSON: objects, lists and everything in them, except keys.",
    )
    max_items: WholeNumber = Field(
        default=10_000, ge=1, description="The most items in `input` of one request, and messages in `messages`."
    )
    max_tools: WholeNumber = Field(default=1000, ge=1, description="The most tools of one request.")
    max_agui_state_kb: Number = Field(
        default=256.0, gt=0, description="The largest state that is stored with a thread of AG-UI, in KiB."
    )
    keepalive_s: Number = Field(
        default=15.0,
        gt=0,
        description="Seconds of silence after which a stream gets a keep-alive, in most APIs a comment, so that the "
        "connection stays open.",
    )
    idle_s: WholeNumber = Field(
        default=75,
        ge=1,
        description="Seconds for which a connection stays open without a request, also one of `metrics.listen`. "
        "Longer than clients and load balancers keep theirs: a request that is sent just as the server closes its "
        "connection is lost.",
    )
    linger_s: Number = Field(
        default=0.0,
        ge=0,
        description="Seconds after SIGTERM in which new requests are still served, while `/readyz` replies 503 and "
        "each reply ends its connection. Proxies need them to notice that the server stops. 0 closes the port at once.",
    )
    drain_s: Number = Field(
        default=20.0,
        ge=0,
        description="Seconds in which open streams may end after the server has closed its port, because it stops.",
    )
    max_worker_deaths: WholeNumber = Field(
        default=10,
        ge=0,
        description="The most deaths of `workers` within `worker_deaths_s`. Each dead worker is replaced; at one more "
        "death the server stops.",
    )
    worker_deaths_s: Number = Field(
        default=300.0, gt=0, description="Seconds in which deaths of workers are counted together."
    )
    tcp_nodelay: bool = Field(
        default=True,
        description="Whether to send each delta at once. With `false` the operating system collects small deltas until "
        "the client has acknowledged earlier ones. This costs less processor time for streams of a thousand deltas per "
        "second, but each delta waits longer, some for 40 ms.",
    )
    doctor_report: NonEmptyText | None = Field(
        default="responses-gateway-doctor.json",
        description="The file in which `doctor` saves its results, which the page `/` shows. `null` saves nothing.",
    )
    sentence_buffer: bool = Field(
        default=False,
        description="Whether to send the text of streams, answers and thinking, in whole sentences or lines instead of "
        "as it is generated, for clients that read it aloud or show it by sentences. Text that ends, or is followed by "
        "a call, is sent at once. Streams are then translated instead of relayed, unless they have several choices "
        "(`n`).",
    )
    reachability_s: Number = Field(
        default=10.0,
        ge=0,
        description="Seconds after which `/readyz` and the page `/` examine again whether the servers of the providers "
        "accept connections. 0 examines none.",
    )
    cors: CorsSettings | None = Field(
        default=None, description="The web pages that may call the gateway from a browser. If left out, none may."
    )
    reasoning_fields: tuple[ReasoningTextField, ...] = Field(
        default=("reasoning_content", "reasoning"),
        description="The fields in which clients of chat get the model's reasoning: some of these, or none (`[]`).",
    )

    @field_validator("hosts")
    @classmethod
    def _refuse_addresses(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        if any(_HOST_NAME.fullmatch(host) is None for host in hosts):
            raise PydanticCustomError("hosts", "write names without scheme, port and path, such as gateway.example.com")
        return hosts


class LogSettings(_Section):
    """The log lines that the server writes to stderr."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info",
        description="The lowest level of lines that are written. `warning` omits requests that succeeded, and requests "
        "that failed by a mistake of the client.",
    )
    format: Literal["auto", "json", "text"] = Field(
        default="auto",
        description="`json`: one JSON object per line. `text`: for people. `auto`: text on a terminal, else JSON.",
    )

    @property
    def level_number(self) -> int:
        """The level as the standard library's logging counts it."""
        return logging.getLevelNamesMapping()[self.level.upper()]


class StoreSettings(_Section):
    """The database in which responses, conversations and completions are stored."""

    url: str | None = Field(
        default="sqlite+aiosqlite:///responses-gateway.db",
        description="The database: `sqlite+aiosqlite:///FILE` for one machine, "
        "`postgresql+asyncpg://USER:PASSWORD@HOST/NAME` for many replicas, `null` to store nothing.",
    )
    ttl_days: Number = Field(default=30.0, gt=0, description="Days until stored objects are deleted.")
    events_hours: Number = Field(
        default=24.0, gt=0, description="Hours in which the stream of a finished response can still be replayed."
    )
    idempotency_hours: Number = Field(
        default=24.0,
        gt=0,
        description="Hours in which a request with the `Idempotency-Key` of an earlier one is not run again. At most "
        "`events_hours`, because the request may ask for the stream of the earlier response.",
    )
    sweep_s: Number = Field(default=600.0, gt=0, description="Seconds between two searches for expired objects.")
    deadline_s: Number = Field(
        default=5.0, gt=0, description="Seconds for one transaction, after which the database counts as unavailable."
    )
    begin_delay_ms: Number = Field(
        default=100.0,
        ge=0,
        description="Milliseconds after which a response without `stream` is stored as `in_progress`. A response that "
        "ends earlier is stored once, at its end. A streamed response is stored as soon as it begins.",
    )
    max_history_items: WholeNumber = Field(
        default=100_000,
        ge=1,
        description="The most stored items that one request may continue, of a response, a conversation or a thread. "
        "More are refused: the context has to be compacted, or a new one begun.",
    )
    max_history_mb: Number = Field(
        default=64.0,
        gt=0,
        description="The most stored items that one request may continue or reference, in MiB as JSON. They take some "
        "ten times as much memory while the request is planned.",
    )
    max_page_mb: Number = Field(
        default=16.0,
        gt=0,
        description="The largest page of a list of stored responses, items, completions or prompts, in MiB as JSON. A "
        "larger one ends earlier, with `has_more: true`. A page has at least one object.",
    )
    on_failure: Literal["refuse", "serve_unstored"] = Field(
        default="refuse",
        description="What becomes of a request whose response cannot be stored, because the database has failed. "
        "`refuse`: it gets 503, or its stream ends in failure. `serve_unstored`: its client gets the answer, with "
        "`store: false` in the response and `store` among the [losses](state.md#if-the-database-fails). Requests that "
        "need stored state are always refused, and the stream of a chat completion ends in failure if the database "
        "fails after it has begun.",
    )
    poll_s: Number = Field(
        default=0.5, gt=0, description="Seconds between two polls of the database for changes that no signal reports."
    )

    @field_validator("url")
    @classmethod
    def _refuse_unknown_databases(cls, url: str | None) -> str | None:
        if url is None:
            return None
        if (problem := find_url_problem(url)) is not None:
            raise PydanticCustomError("store", "{problem}", {"problem": problem})
        return url


_MIN_KEY_CHARS = 32
_DIGEST_DIGITS = 12


class SealingSettings(_Section):
    """Keys that encrypt content which clients send back: `encrypted_content` of reasoning items."""

    keys: tuple[SecretStr, ...] = Field(
        default=(),
        description="The keys. The first encrypts, all of them decrypt. If left out, a key is created in the database.",
    )
    keys_env: str | None = Field(
        default=None, description="The environment variable that holds the keys, separated by commas."
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
        """The keys as plain bytes."""
        return tuple(key.get_secret_value().encode() for key in self.keys)


class BackgroundSettings(_Section):
    """Responses that run without a client: responses with `background: true`, and streams that can be resumed."""

    max_running: WholeNumber = Field(
        default=64,
        ge=1,
        description="The most responses that run at once in one server process. Others are queued. A key gets three "
        "quarters of these places at most, and owners take turns.",
    )
    lease_s: Number = Field(
        default=15.0, gt=0, description="Seconds without a heartbeat after which other replicas take over a job."
    )
    max_attempts: WholeNumber = Field(
        default=3,
        ge=1,
        description="The most times that a response is started before it fails. With 1 it is never restarted.",
    )


class WebSocketSettings(_Section):
    """The WebSocket transport of `/v1/responses`."""

    max_minutes: Number = Field(default=60.0, gt=0, description="Minutes after which a connection is closed.")
    max_connections: WholeNumber = Field(
        default=1000, ge=1, description="The most open connections in one server process."
    )


class EgressSettings(_Section):
    """Downloads of URLs in requests. The gateway fetches them only from the public internet, and engines fetch none."""

    allow: tuple[NonEmptyText, ...] = Field(
        default=(),
        description="Your own hosts from which URLs may be fetched although they are not on the public internet.",
    )
    max_mb: Number = Field(
        default=20.0,
        gt=0,
        description="The largest download, in MiB. All downloads of one request together may have three times this "
        "size.",
    )
    deadline_s: Number = Field(default=30.0, gt=0, description="Seconds for all downloads of one request.")


class Settings(_Section):
    """The whole configuration. `load_settings` and `parse_settings` build one; they check more than the fields do."""

    env_file: NonEmptyText | None = Field(
        default=None,
        description="A file with lines `NAME=value`, whose values are used instead of variables of the environment, "
        "for `key_env`, `api_key_env`, `${NAME}` and the like. It is read again when the [configuration is "
        "reloaded](operations.md#change-the-configuration), which the environment of a process is not. A relative path "
        "begins at the folder of the configuration file.",
    )
    server: ServerSettings = Field(
        default=ServerSettings(), description="The addresses, limits and deadlines of the server."
    )
    log: LogSettings = Field(default=LogSettings(), description="The log lines that the server writes to stderr.")
    store: StoreSettings = Field(
        default=StoreSettings(),
        description="The database in which responses, conversations and completions are stored.",
    )
    sealing: SealingSettings = Field(
        default=SealingSettings(), description="Keys that encrypt content which clients send back."
    )
    background: BackgroundSettings = Field(
        default=BackgroundSettings(), description="Responses that run without a client."
    )
    websocket: WebSocketSettings = Field(
        default=WebSocketSettings(), description="The WebSocket transport of `/v1/responses`."
    )
    limits: LimitSettings = Field(default=LimitSettings(), description="Limits per owner.")
    files: FileSettings = Field(default=FileSettings(), description="Files that clients upload.")
    egress: EgressSettings = Field(default=EgressSettings(), description="Downloads of URLs in requests.")
    tools: ToolSettings = Field(default=ToolSettings(), description="Tools that the gateway runs itself.")
    auth: AuthSettings | None = Field(
        default=None, description="The API keys of clients. If left out, no key is required."
    )
    providers: dict[NonEmptyText, ProviderConfig] = Field(
        default_factory=dict, description="The upstreams, each with a name of your choice."
    )
    models: dict[NonEmptyText, ModelConfig] = Field(
        default_factory=dict,
        description="The models that clients may request: names, or patterns with `*` and `?`. The first match wins.",
    )
    routing: RoutingSettings = Field(
        default=RoutingSettings(), description="How turns are shared between the upstreams of a name."
    )
    metrics: MetricsSettings = Field(default=MetricsSettings(), description="Figures for Prometheus at `/metrics`.")
    tracing: TracingSettings | None = Field(
        default=None, description="Traces for OpenTelemetry. If left out, there are none."
    )
    families: dict[NonEmptyText, FamilyConfig] = Field(
        default_factory=dict,
        description="Families of models, by a name of your choice, or by the name of a built-in family, which is then "
        "replaced. They are searched before the built-in families.",
    )

    @property
    def model_families(self) -> Mapping[str, ModelFamily]:
        """The families of `families`, then the built-in families."""
        own_families = {name: family.build_family(MODEL_FAMILIES.get(name)) for name, family in self.families.items()}
        return {**own_families, **{name: row for name, row in MODEL_FAMILIES.items() if name not in own_families}}


Overrides: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Values of keys that replace those of a configuration: section -> key -> value."""


def load_settings(
    path: Path,
    *,
    overrides: Overrides | None = None,
    environ: Mapping[str, str] | None = None,
    running: Settings | None = None,
) -> Settings:
    """Loads settings from a YAML file. `overrides` override keys of its sections.

    `environ` is the environment, by default the environment of the process. `running` are the settings of a running
    server that the new ones would replace: then only the reloadable sections may differ (`gateway/config/checks.py`).
    Raises ConfigError with every mistake in the file.
    """
    return _validate_document(yaml_file.read_yaml(path), overrides, environ, str(path), running)


def parse_settings(
    tree: Mapping[str, Any],
    *,
    overrides: Overrides | None = None,
    environ: Mapping[str, str] | None = None,
    source: str = "settings",
    running: Settings | None = None,
) -> Settings:
    """Builds settings from plain values, as a YAML file would have them. `source` is their name in errors.

    The other arguments and the errors are the same as for `load_settings`.
    """
    return _validate_document(Document(dict(tree), {}), overrides, environ, source, running)


def discover_settings(
    *,
    overrides: Overrides | None = None,
    environ: Mapping[str, str] | None = None,
    running: Settings | None = None,
) -> Settings:
    """Builds settings without a file, from the API keys and local servers of this machine. Takes about a second.

    Arguments and errors are the same as for `load_settings`.
    """
    from gateway.config.discovery import (
        discover_config,  # imports the HTTP client, which `check-config` does not need
    )

    environ = os.environ if environ is None else environ
    return parse_settings(
        asyncio.run(discover_config(environ)),
        overrides=overrides,
        environ=environ,
        source="without a config file",
        running=running,
    )


def _validate_document(
    document: Document,
    overrides: Overrides | None,
    environ: Mapping[str, str] | None,
    source: str,
    running: Settings | None,
) -> Settings:
    for name, keys in (overrides or {}).items():
        section = document.tree.get(name)
        if keys and (section is None or isinstance(section, dict)):
            document = Document({**document.tree, name: {**(section or {}), **keys}}, document.lines)
    environ = os.environ if environ is None else environ
    if isinstance(env_file := document.tree.get("env_file"), str):
        environ = {**environ, **read_env_file(Path(source).parent / env_file, source, document.lines)}
    settings = validate_settings(Settings, document, environ, source)
    if running is not None and (problems := list(find_fixed_changes(running, settings))):
        raise ConfigError(source, problems, document.lines)
    return settings


def digest_config(settings: Settings) -> str:
    """Returns a digest of the settings that decide how models are served: providers, models and downloads.

    How the server listens, stores and authenticates is not part of it. Keys are not part of it either: the digest is
    made of settings in which secrets are masked, so that it reveals nothing about them.
    """
    content = settings.model_dump(mode="json", include={"providers", "models", "egress"})
    # The order of models is kept: the first pattern that matches a name serves it.
    return hashlib.sha256(orjson.dumps(content)).hexdigest()[:_DIGEST_DIGITS]
