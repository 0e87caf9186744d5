"""The configuration of one provider, and the defaults of each provider type."""

import ipaddress
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator
from pydantic_core import PydanticCustomError

from providers.base import Capabilities, RelayedDialect, WireDialect
from providers.overrides import Number, OverridesOf, WholeNumber

ProviderType: TypeAlias = Literal[
    "openai_compatible",
    "openai",
    "openrouter",
    "anthropic",
    "gemini",
    "ollama",
    "vllm",
    "llama_server",
    "harmony",
    "vllm_inprocess",
    "llamacpp",
    "demo",
    "scripted",
]


UnlistedModels: TypeAlias = Literal["refuse", "forward"]

LoadReport: TypeAlias = Literal["auto", "orca", "metrics", "none"]


class ProviderDefaults(NamedTuple):
    """The defaults of one provider type, for what the operator does not set."""

    base_url: str | None
    dialects: tuple[RelayedDialect, ...]
    key_env: str | None = None
    """The environment variable that usually holds the key. Only types that always need a key have one."""
    key_header: str = "authorization"
    """The header for the key: as a bearer token in `authorization`, bare in any other header."""
    headers: Mapping[str, str] = MappingProxyType({})
    """Headers that every request to it must have."""
    own_dialect: WireDialect | None = None
    """The upstream's own dialect, if turns are sent to it in neither chat nor Responses."""
    unlisted_models: UnlistedModels = "forward"
    """`refuse` for servers whose list is complete. The lists of services leave out aliases and variants."""
    closes_after_streams: bool = False
    """Its server closes the connection after every streamed reply and does not announce it. Such requests ask for the
    close, so that no other request uses the connection."""


PROVIDER_DEFAULTS: dict[ProviderType, ProviderDefaults] = {
    "openai_compatible": ProviderDefaults(None, ("chat",), unlisted_models="refuse"),
    "openai": ProviderDefaults("https://api.openai.com/v1", ("chat", "responses"), "OPENAI_API_KEY"),
    "openrouter": ProviderDefaults("https://openrouter.ai/api/v1", ("chat",), "OPENROUTER_API_KEY"),
    "anthropic": ProviderDefaults(
        "https://api.anthropic.com/v1",
        ("messages",),
        "ANTHROPIC_API_KEY",
        key_header="x-api-key",
        headers={"anthropic-version": "2023-06-01"},
        own_dialect="anthropic",
    ),
    "gemini": ProviderDefaults(
        "https://generativelanguage.googleapis.com/v1beta",
        (),
        "GEMINI_API_KEY",
        key_header="x-goog-api-key",
        own_dialect="gemini",
    ),
    "ollama": ProviderDefaults("http://localhost:11434", (), own_dialect="ollama", unlisted_models="refuse"),
    "vllm": ProviderDefaults("http://localhost:8000/v1", ("chat",), unlisted_models="refuse"),
    "llama_server": ProviderDefaults("http://127.0.0.1:8080/v1", ("chat",), closes_after_streams=True),
    "harmony": ProviderDefaults("http://127.0.0.1:8080/v1", (), own_dialect="harmony"),
    "vllm_inprocess": ProviderDefaults(None, ()),
    "llamacpp": ProviderDefaults(None, ("chat",)),
    "demo": ProviderDefaults(None, ()),
    "scripted": ProviderDefaults(None, ()),
}

EMBEDDED_TYPES: frozenset[ProviderType] = frozenset({"vllm_inprocess", "llamacpp", "demo", "scripted"})
"""Types that run inside the gateway, without a separate server."""

TOKEN_PROMPT_TYPES: frozenset[ProviderType] = frozenset({"vllm", "llama_server", "vllm_inprocess", "llamacpp", "demo"})
"""Types that can continue a prompt of token ids. Two passes need that."""

TOKENS_ONLY_TYPES: frozenset[ProviderType] = frozenset({"vllm_inprocess"})
"""The types of `TOKEN_PROMPT_TYPES` that get token ids for a single pass too."""

BUDGET_ENFORCING_TYPES: frozenset[ProviderType] = frozenset({"vllm", "vllm_inprocess"})
"""Types whose engine can enforce a thinking budget within one generation."""


_HEALTH_PATH_TYPES: frozenset[ProviderType] = frozenset({"vllm", "llama_server"})
"""Types whose servers have `/health`."""

_TRACED_TYPES: frozenset[ProviderType] = frozenset({"vllm", "llama_server", "ollama", "openai_compatible"})
"""Types whose servers are told which trace a request belongs to: they are usually the operator's own."""


class CapabilityOverrides(OverridesOf[Capabilities]):
    """Capabilities of an upstream or a model that differ from its type."""


_DEFAULT_HANG_S = 60.0


class ProviderConfig(BaseModel):
    """The configuration of one provider. `base_url` and `dialects` are the type's defaults if the operator set none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: ProviderType = Field(description="The kind of server.")
    base_url: str | None = Field(
        default=None,
        description="The server's address up to and including the version: `/v1`, for Gemini `/v1beta`, for Ollama "
        "none. The default is the address of the service, or the server's usual address on this machine. Required for "
        "`openai_compatible`. The gateway's own address is refused.",
    )
    api_key: SecretStr | None = Field(
        default=None,
        description="The key, sent in the header that the type requires. Better read it from the environment with "
        "`api_key_env`. Local servers need no key; services need one unless their address is on localhost.",
    )
    api_key_env: str | None = Field(default=None, description="The environment variable that holds the key.")
    model: str | None = Field(
        default=None,
        min_length=1,
        description="The model that an embedded engine loads: for `vllm_inprocess` a folder or a name on the Hugging "
        "Face hub, for `llamacpp` a GGUF file.",
    )
    engine: dict[str, Any] = Field(
        default_factory=dict,
        description="Arguments of an embedded engine: for `vllm_inprocess` vLLM's engine arguments, for `llamacpp` "
        "llama.cpp's common parameters. Unknown ones are refused.",
    )
    hang_s: Number = Field(
        default=_DEFAULT_HANG_S,
        ge=0,
        description="Seconds after which an embedded engine that neither responds nor computes is killed and "
        "restarted. 0: never.",
    )
    headers: dict[str, str] = Field(
        default_factory=dict, description="Additional headers of every request to it.", repr=False
    )
    dialects: tuple[RelayedDialect, ...] = Field(
        default=(),
        description="The client APIs that the upstream has. Requests to the same API are relayed. The default is "
        "`[chat, responses]` for `openai`, `[messages]` for `anthropic`, none for other types with an API of their "
        "own, and `[chat]` for the others.",
    )
    unlisted_models: UnlistedModels | None = Field(
        default=None,
        description="What happens to a request for a name that only a pattern under `models` matches, and that the "
        "upstream does not list: `refuse` replies with 404 and similar names, `forward` sends it. The default is "
        "`refuse` for `openai_compatible`, `vllm`, `llama_server` and `ollama`. A list that cannot be fetched refuses "
        "nothing. Of several `upstreams`, one that lists the name, or forwards any, is enough.",
    )
    connect_s: Number = Field(default=5.0, gt=0, description="Seconds to get a connection.")
    silence_s: Number = Field(default=120.0, gt=0, description="Seconds without data after which a stream is given up.")
    answer_s: Number = Field(default=600.0, gt=0, description="Seconds to wait for a reply that is not a stream.")
    retries: WholeNumber = Field(
        default=2,
        ge=0,
        le=10,
        description="How often a request is retried, on a new connection, if its connection fails before the reply "
        "begins. There is no wait before the retry if the server closed an idle connection while it was being used.",
    )
    max_line_mb: Number = Field(
        default=16.0,
        gt=0,
        description="The longest line of a stream, or the longest reply without a stream, in MiB. It also bounds the "
        "JSON values of such a line or reply: one for each 48 bytes of it, a key for each 256 bytes, and an object or "
        "list for each 2 KiB, besides those of `logprobs` and `tools`; numbers of embeddings for other APIs: one for "
        "each 10 bytes. A token with `top_logprobs: 20` has some 170 "
        "values, so that 16 MiB are enough for 2,000 such tokens in one reply without a stream: raise it in proportion "
        "for longer ones.",
    )
    max_connections: WholeNumber = Field(
        default=10_000,
        ge=0,
        description="The most connections at a time, of which one key gets three quarters. 0: no limit. Further "
        "requests wait up to `connect_s`, and keys take turns.",
    )
    max_in_flight: WholeNumber | None = Field(
        default=None,
        ge=1,
        description="The most attempts at once in one server process, over all model names. Further turns wait "
        "(`routing.queue_s`). If left out, there is no limit.",
    )
    realm: str | None = Field(
        default=None,
        min_length=1,
        description="The account that can read its sealed reasoning. Write the same text for providers of one account. "
        "The default is the provider's name.",
    )
    health_path: str | None = Field(
        default=None,
        min_length=1,
        description="A path at the server's root that is requested every two seconds while it is ejected: with status "
        "200 it gets a turn again. The default is `/health` for `vllm` and `llama_server`, none for the others.",
    )
    load_report: LoadReport = Field(
        default="auto",
        description="Where the number of requests that wait in the server comes from. `orca`: from the header "
        "`endpoint-load-metrics` of its replies. `metrics`: from its `/metrics`, once a second. `none`: nowhere. "
        "`auto`: `orca` for `vllm`, else `none`.",
    )
    trace_context: bool | None = Field(
        default=None,
        description="Whether it is sent `traceparent` while [traces](traces.md) are on. The default is true for "
        "`vllm`, `llama_server`, `ollama` and `openai_compatible`, false for the others.",
    )
    coalesce_ms: Number = Field(
        default=4.0,
        ge=0,
        le=100,
        description="Milliseconds between two reads of its streams while they are busy: more than about 1,000 deltas a "
        "second altogether, arriving continuously and not in steps. Fewer reads take less CPU time. 0: data is read as "
        "it arrives. So it is with `httpx`, with TLS, and on systems other than Linux.",
    )
    transport: Literal["pooled", "httpx"] = Field(
        default="pooled",
        description="The HTTP client for its requests: `pooled` is the gateway's own. `httpx` takes several times the "
        "CPU time, and uses the proxy that `HTTPS_PROXY` or `HTTP_PROXY` names.",
    )
    capabilities: CapabilityOverrides = Field(
        default=CapabilityOverrides(),
        description="Capabilities that differ from the type's. Requests that the upstream cannot honour are refused.",
    )

    @model_validator(mode="before")
    @classmethod
    def _apply_type_defaults(cls, values: Any) -> Any:
        if not isinstance(values, dict) or values.get("type") not in PROVIDER_DEFAULTS:
            return values
        type_defaults = PROVIDER_DEFAULTS[values["type"]]
        defaults = {
            "base_url": type_defaults.base_url,
            "dialects": type_defaults.dialects,
            "unlisted_models": type_defaults.unlisted_models,
        }
        return {**values, **{name: value for name, value in defaults.items() if values.get(name) is None}}

    @field_validator("base_url")
    @classmethod
    def _validate_base_url(cls, url: str | None) -> str | None:
        if url is None:
            return None
        url = url.rstrip("/")
        if (problem := _base_url_problem(url)) is not None:
            raise PydanticCustomError("base_url", "{wrong}", {"wrong": problem})
        return url

    @field_validator("headers")
    @classmethod
    def _validate_headers(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            if not _HEADER_NAME.fullmatch(name):
                raise PydanticCustomError("headers", "{name} is not a valid header name", {"name": repr(name)})
            if any(ord(character) < 32 for character in value):
                raise PydanticCustomError("headers", "the value of {name} contains a control character", {"name": name})
        return headers

    @model_validator(mode="after")
    def _validate_for_type(self) -> "ProviderConfig":
        if self.type in EMBEDDED_TYPES:
            self._validate_embedded()
            return self
        if self.model is not None:
            raise PydanticCustomError(
                "model", "only embedded engines load a model: set `model` under `models`, not in the provider"
            )
        if self.hang_s != _DEFAULT_HANG_S:
            raise PydanticCustomError("hang_s", "only embedded engines have a watchdog: leave hang_s out")
        if self.engine:
            raise PydanticCustomError("engine", "only embedded engines take engine arguments: leave engine out")
        if self.base_url is None:
            raise PydanticCustomError("base_url", "write base_url, the server's address up to and including /v1")
        if (own := PROVIDER_DEFAULTS[self.type].own_dialect) is not None and (
            self.dialects and self.dialects != PROVIDER_DEFAULTS[self.type].dialects
        ):
            raise PydanticCustomError("dialects", "{type} has an API of its own: leave dialects out", {"type": own})
        if not self.dialects and own is None:
            raise PydanticCustomError("dialects", "write dialects: [chat], [responses], [messages] or several")
        key_env = PROVIDER_DEFAULTS[self.type].key_env
        if key_env and not self.key and not is_loopback(urlsplit(self.base_url).hostname or ""):
            raise PydanticCustomError(
                "key",
                "{type} needs a key: write api_key_env: {key_env} and set that variable",
                {"type": self.type, "key_env": key_env},
            )
        return self

    def _validate_embedded(self) -> None:
        if self.base_url or self.dialects != PROVIDER_DEFAULTS[self.type].dialects:
            raise PydanticCustomError(
                "embedded", "{type} has no upstream: leave base_url and dialects out", {"type": self.type}
            )
        if self.transport != "pooled":
            raise PydanticCustomError("transport", "{type} has no upstream: leave transport out", {"type": self.type})
        if self.type == "scripted" and (self.model is not None or self.engine or self.hang_s != _DEFAULT_HANG_S):
            message = "a scripted provider has no engine: leave model, engine and hang_s out"
            raise PydanticCustomError("scripted", message)
        if self.type == "demo" and (self.model is not None or self.engine):
            raise PydanticCustomError("demo", "the demo brings its model along: leave model and engine out")
        if self.type not in ("demo", "scripted") and self.model is None:
            raise PydanticCustomError("model", "write model, the model that {type} loads", {"type": self.type})

    def find_health_path(self) -> str | None:
        """Returns the path that reports the server's health, if it is known."""
        if "health_path" in self.model_fields_set:
            return self.health_path
        return "/health" if self.type in _HEALTH_PATH_TYPES else None

    def find_trace_context(self) -> bool:
        """Returns whether requests to the upstream have a header that names their trace."""
        return self.type in _TRACED_TYPES if self.trace_context is None else self.trace_context

    def find_load_report(self) -> LoadReport:
        """Returns how the upstream reports the number of requests that wait in it."""
        return self.load_report if self.load_report != "auto" else "orca" if self.type == "vllm" else "none"

    @property
    def key(self) -> str:
        """The API key in plain text; empty if there is none."""
        return self.api_key.get_secret_value() if self.api_key else ""


_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def is_loopback(host: str) -> bool:
    """Whether a host name or IP address always means this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _base_url_problem(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "this is not a URL: write one like http://localhost:8000/v1"
    if parts.scheme not in ("http", "https") or not host or re.search(r"\s", url):
        return "write an address that begins with http:// or https://, like http://localhost:8000/v1"
    if parts.username is not None or parts.password is not None:
        return "set the key with api_key_env, not inside the address"
    if parts.query or parts.fragment:
        return "write the address without ? and #"
    for path in ("/chat/completions", "/responses", "/messages", "/models", "/api/chat"):
        if parts.path.endswith(path):
            return f"write the address without {path}"
    return None
