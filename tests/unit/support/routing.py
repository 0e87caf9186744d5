"""Settings and providers for tests that stop before anything is sent."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gateway.config import settings as settings_of
from gateway.config.settings import Settings
from gateway.http.auth import ANONYMOUS
from gateway.planning.admitted_request import AdmittedRequest
from gateway.planning.plan import RelayPlan, TranslationPlan, make_plan
from gateway.planning.resolver import Resolver, Route
from gateway.replies.endpoints import Endpoint, ReplyIdentity
from gateway.tools.host import ToolHost
from providers.base import Batch, Capabilities, CountMethod, Dialect
from providers.capabilities import CAPABILITIES
from translation.errors import TranslationError
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn


@dataclass
class Recorder:
    """A provider that records its requests. `models` is what its list raises or returns."""

    name: str
    capabilities: Capabilities = CAPABILITIES["openai_compatible"]
    losses: Sequence[Loss] = ()
    served: Sequence[str] | Exception = ()
    turn: Turn | None = None
    relayed: tuple[Dialect, Json] | None = None
    asked: int = field(default=0)

    def prepare(self, turn: Turn, profile: Profile) -> "Recorder":
        self.turn = turn
        return self

    def prepare_relay(self, dialect: Dialect, body: Json, credentials: Sequence[str] = ()) -> "Recorder":
        self.relayed = (dialect, body)
        return self

    async def batches(self) -> AsyncGenerator[Batch, None]:
        raise TranslationError("nothing is sent here")
        yield []

    async def reads(self) -> AsyncGenerator[bytes, None]:
        raise TranslationError("nothing is sent here")
        yield b""

    async def fetch_body(self) -> Json | bytes:
        raise TranslationError("nothing is sent here")

    async def count_tokens(self, turn: Turn, profile: Profile, method: CountMethod) -> int:
        raise TranslationError("nothing is sent here")

    async def list_models(self) -> Sequence[str]:
        self.asked += 1
        if isinstance(self.served, Exception):
            raise self.served
        return self.served

    def redact(self, message: str) -> str:
        return message

    async def aclose(self) -> None: ...


def settings(models: dict[str, Any], *names: str) -> Settings:
    """Returns settings with models over openai_compatible providers of these names."""
    upstream = {"type": "openai_compatible", "base_url": "http://127.0.0.1:9/v1"}
    return settings_of.parse_settings({"providers": dict.fromkeys(names, upstream), "models": models}, environ={})


def resolver(models: dict[str, Any], *providers: Recorder) -> Resolver:
    by_name = {provider.name: provider for provider in providers}
    return Resolver(settings(models, *by_name), by_name)


def plan_body(
    endpoint: Endpoint, body: Json, route: Route, *, strict: bool = False, tool_host: ToolHost | None = None
) -> RelayPlan | TranslationPlan:
    """Returns the plan for a valid body of a client without history."""
    facts, identity = endpoint.request.read_facts(body), ReplyIdentity("resp_1", 0, route.name)
    request = AdmittedRequest(endpoint, body, facts, route, route.target, ANONYMOUS, identity, strict)
    return make_plan(replace(request, tool_host=tool_host))
