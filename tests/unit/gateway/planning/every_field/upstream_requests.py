"""Builds the request that each kind of upstream would get, without sending it."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import orjson

from gateway.config import settings as settings_of
from gateway.dialects.chat.endpoint import CHAT
from gateway.dialects.gemini.endpoint import GEMINI
from gateway.dialects.messages.endpoint import MESSAGES
from gateway.dialects.ollama.endpoint import OLLAMA_CHAT
from gateway.dialects.responses.endpoint import RESPONSES
from gateway.planning.resolver import Resolver
from gateway.replies.endpoints import Endpoint
from providers.base import Capabilities, Dialect, RelayedDialect
from providers.capabilities import CAPABILITIES
from providers.config import ProviderType
from providers.engines import generation_request as engines
from providers.engines.servers.vllm_server import VllmServerEngine
from providers.http.dialects import DIALECTS
from tests.unit.support.harmony import lower_to_harmony, real
from tests.unit.support.routing import Recorder, plan_body
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import LoweredRequest, Turn

ENDPOINTS: dict[Dialect, Endpoint] = {
    "chat": CHAT,
    "responses": RESPONSES,
    "messages": MESSAGES,
    "ollama": OLLAMA_CHAT,
    "gemini": GEMINI,
}

Lower = Callable[[Turn, Profile], LoweredRequest]


def _harmony(turn: Turn, profile: Profile) -> LoweredRequest:
    body, losses = lower_to_harmony(turn, profile)
    kept_here = turn.sampling.get("stop")
    return LoweredRequest({**body, "prompt": real().decode(body["prompt"]), "stop": kept_here}, losses)


def _gemini(turn: Turn, profile: Profile) -> LoweredRequest:
    body, losses = DIALECTS["gemini"].lower(turn, profile)
    return LoweredRequest({**body, "path": DIALECTS["gemini"].path_of(turn)}, losses)


def _engine(turn: Turn, profile: Profile) -> LoweredRequest:
    asked = engines.build_engine_request(turn, profile, VllmServerEngine.supported_parameters)
    said = {key: value for key, value in asdict(asked).items() if key != "losses"}
    return LoweredRequest({**said, "max_tokens": turn.max_output_tokens, "stream": turn.stream}, asked.losses)


class Kind(NamedTuple):
    """A kind of upstream. `relays`: bodies of its own dialect are sent unchanged."""

    provider: ProviderType
    lower: Lower
    model: str = "m"
    config: Json = {}  # noqa: RUF012 - never changed
    relays: bool = False


UPSTREAMS: dict[str, Kind] = {
    "chat": Kind("openai_compatible", DIALECTS["chat"].lower),
    "responses": Kind("openai", DIALECTS["responses"].lower),
    "anthropic": Kind("anthropic", DIALECTS["anthropic"].lower, "claude-opus-4-5"),
    "gemini": Kind("gemini", _gemini, "gemini-2.5-pro"),
    "ollama": Kind("ollama", DIALECTS["ollama"].lower),
    "harmony": Kind("harmony", _harmony),
    "engine": Kind("vllm", _engine, config={"tool_parser": "hermes"}),
    "chat, relayed": Kind("openai_compatible", DIALECTS["chat"].lower, relays=True),
    "responses, relayed": Kind("openai", DIALECTS["responses"].lower, relays=True),
}


@dataclass
class RecordingProvider(Recorder):
    """A provider that records the upstream request."""

    lower: Lower = DIALECTS["chat"].lower
    sent: Any = None

    def prepare(self, turn: Turn, profile: Profile) -> "RecordingProvider":
        self.sent, self.losses = self.lower(turn, profile)
        return self

    def prepare_relay(self, dialect: Dialect, body: Json, credentials: Sequence[str] = ()) -> "RecordingProvider":
        self.sent, self.losses = body, ()
        return self


class UpstreamRequest(NamedTuple):
    """An upstream request, and its losses."""

    sent: Json
    losses: Sequence[Loss]

    @property
    def text(self) -> str:
        return orjson.dumps(self.sent, default=str).decode()


@cache
def _settings(kind: ProviderType, model: str, config: tuple[tuple[str, Any], ...]) -> settings_of.Settings:
    there = {"type": kind, "base_url": "http://127.0.0.1:9/v1", "api_key": "k"}
    models = {"mine": {"provider": "up", "model": model, **dict(config)}}
    return settings_of.parse_settings({"providers": {"up": there}, "models": models}, environ={})


def lower_for_upstream(
    upstream: str, dialect: Dialect, body: Json, *, strict: bool = False, by_model: bool = False
) -> UpstreamRequest:
    """Raises InvalidRequest for what is refused."""
    kind = UPSTREAMS[upstream]
    endpoint = ENDPOINTS[dialect]
    params = {"model": "mine", **body}
    endpoint.request.validate(params)
    provider = RecordingProvider("up", _capabilities(upstream), lower=kind.lower)
    config = kind.config | ({"strict": True} if by_model else {})
    route = Resolver(_settings(kind.provider, kind.model, tuple(config.items())), {"up": provider}).resolve("mine")
    plan = plan_body(endpoint if kind.relays else replace(endpoint, relay=None), params, route, strict=strict)
    return UpstreamRequest(provider.sent, plan.losses)


def _capabilities(upstream: str) -> Capabilities:
    kind = UPSTREAMS[upstream]
    dialects: dict[str, RelayedDialect] = {"chat, relayed": "chat", "responses, relayed": "responses"}
    able = CAPABILITIES[kind.provider]
    return replace(able, dialects=frozenset({dialects[upstream]})) if kind.relays else able
