"""Every HTTP adapter without a socket, at the address of the real service, built from its configuration.

A test over a socket is at an address of its own, in plain text. These see what such a test cannot: the usual addresses,
over TLS, with the headers that the service requires.
"""

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import httpx
import pytest
import respx
from pydantic import SecretStr

from providers import errors
from providers.base import Dialect, Provider, WireDialect
from providers.config import ProviderConfig, ProviderType
from providers.registry import build_provider
from tests.upstream.faults import ANSWERS, TEXT
from translation.representation.events import Delta, Event, Finished
from translation.representation.profile import DEFAULT_PROFILE
from translation.representation.turn import Turn

KEY = "key-of-the-service"
BEARER = {"authorization": f"Bearer {KEY}"}
JSON = {"content-type": "application/json"}
SAID = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
GEMINI_URL = "https://generativelanguage.googleapis.com/v1beta"
OPENAI_LIST = {"data": [{"id": "one"}, {"id": "two"}]}


class Service(NamedTuple):
    """The default address of one type of upstream."""

    type: ProviderType
    dialect: WireDialect
    stream_url: str
    whole_url: str
    list_url: str
    listing: Any
    headers: dict[str, str]
    dialects: list[Dialect] | None = None


def at(base_url: str, path: str, listed: str = "/models") -> tuple[str, str, str]:
    return base_url + path, base_url + path, base_url + listed


SERVICES = [
    Service("openai", "chat", *at("https://api.openai.com/v1", "/chat/completions"), OPENAI_LIST, BEARER, ["chat"]),
    Service("openai", "responses", *at("https://api.openai.com/v1", "/responses"), OPENAI_LIST, BEARER, ["responses"]),
    Service("openrouter", "chat", *at("https://openrouter.ai/api/v1", "/chat/completions"), OPENAI_LIST, BEARER),
    Service(
        "anthropic",
        "anthropic",
        *at("https://api.anthropic.com/v1", "/messages", "/models?limit=1000"),
        OPENAI_LIST,
        {"x-api-key": KEY, "anthropic-version": "2023-06-01"},
    ),
    Service(
        "gemini",
        "gemini",
        f"{GEMINI_URL}/models/m:streamGenerateContent?alt=sse",
        f"{GEMINI_URL}/models/m:generateContent",
        f"{GEMINI_URL}/models?pageSize=1000",
        {"models": [{"name": "models/one"}, {"name": "models/two"}]},
        {"x-goog-api-key": KEY},
    ),
    Service(
        "ollama",
        "ollama",
        *at("http://localhost:11434", "/api/chat", "/api/tags"),
        {"models": [{"name": "one"}, {"name": "two"}]},
        BEARER,
    ),
    Service("vllm", "chat", *at("http://localhost:8000/v1", "/chat/completions"), OPENAI_LIST, BEARER),
    Service("llama_server", "chat", *at("http://127.0.0.1:8080/v1", "/chat/completions"), OPENAI_LIST, BEARER),
]


@pytest.fixture(params=SERVICES, ids=lambda service: f"{service.type}, {service.dialect}")
def service(request: pytest.FixtureRequest) -> Service:
    found: Service = request.param
    return found


@pytest.fixture
async def provider(service: Service, router: respx.MockRouter) -> AsyncIterator[Provider]:
    """A provider that is built before `router` replaces its transport, and closed before the next test."""
    config: dict[str, Any] = {"type": service.type, "api_key": KEY, "transport": "httpx", "retries": 0}
    if service.dialects is not None:
        config["dialects"] = service.dialects
    provider = build_provider("up", ProviderConfig.model_validate(config))
    yield provider
    await provider.aclose()


@pytest.fixture
def router(monkeypatch: pytest.MonkeyPatch) -> respx.MockRouter:
    """Answers everything that httpx sends. A request without a route fails, and so does a route without a request."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return respx.mock(assert_all_called=True, assert_all_mocked=True)


async def events_of(provider: Provider, *, stream: bool) -> list[Event]:
    turn = Turn(model="m", items=[SAID], stream=stream)
    return [event async for batch in provider.prepare(turn, DEFAULT_PROFILE).batches() for event in batch]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_turn_is_sent_to_the_address_of_the_service_with_its_headers(
    stream: bool, service: Service, provider: Provider, router: respx.MockRouter
) -> None:
    answer = ANSWERS[service.dialect]
    body = answer.stream if stream else answer.whole
    with router:
        route = router.post(service.stream_url if stream else service.whole_url, headers=service.headers)
        route.respond(200, headers=dict(answer.headers if stream else JSON), content=body)
        events = await events_of(provider, stream=stream)
    assert "".join(event.text for event in events if isinstance(event, Delta)) == "".join(TEXT)
    assert isinstance(events[-1], Finished)
    assert KEY not in str(route.calls.last.request.url)
    assert KEY.encode() not in route.calls.last.request.content


async def test_the_models_of_the_service_are_listed(
    service: Service, provider: Provider, router: respx.MockRouter
) -> None:
    with router:
        router.get(service.list_url, headers=service.headers).respond(200, json=service.listing)
        assert await provider.list_models() == ["one", "two"]


FAILURES: dict[str, tuple[httpx.Response | Exception, type[errors.ProviderError]]] = {
    "an unknown key": (httpx.Response(401, json={"error": {"message": "no"}}), errors.UpstreamUnauthorized),
    "an unknown model": (httpx.Response(404, json={"error": {"message": "no"}}), errors.UpstreamModelNotFound),
    "a rate limit": (httpx.Response(429, json={"error": {"message": "no"}}), errors.UpstreamRateLimited),
    "no capacity": (httpx.Response(503, json={"error": {"message": "no"}}), errors.UpstreamOverloaded),
    "a failure": (httpx.Response(500, json={"error": {"message": "no"}}), errors.UpstreamRejected),
    "nobody there": (httpx.ConnectError("refused"), errors.UpstreamUnreachable),
    "nobody there in time": (httpx.ConnectTimeout("slow"), errors.UpstreamUnreachable),
    "a break before the reply": (httpx.ReadError("reset"), errors.UpstreamUnreachable),
    "silence": (httpx.ReadTimeout("slow"), errors.UpstreamTimeout),
}


@pytest.mark.parametrize(("failure", "expected"), FAILURES.values(), ids=FAILURES)
async def test_a_failure_of_the_service_has_its_error_class(
    failure: httpx.Response | Exception,
    expected: type[errors.ProviderError],
    service: Service,
    provider: Provider,
    router: respx.MockRouter,
) -> None:
    with router:
        router.post(service.whole_url).mock(side_effect=[failure])
        with pytest.raises(errors.ProviderError) as raised:
            await events_of(provider, stream=False)
    assert type(raised.value) is expected
    assert KEY not in raised.value.message


async def test_an_unreachable_service_is_retried(router: respx.MockRouter) -> None:
    provider = build_provider("up", ProviderConfig(type="openai", api_key=SecretStr(KEY), transport="httpx", retries=2))
    refused = httpx.ConnectError("refused")
    listing = httpx.Response(200, json=OPENAI_LIST)
    with router:
        route = router.get("https://api.openai.com/v1/models").mock(side_effect=[refused, refused, listing])
        assert await provider.list_models() == ["one", "two"]
    assert route.call_count == 3
    await provider.aclose()
