"""Failures of an upstream over HTTP have an error class, and are reported without key and address."""

from collections.abc import AsyncGenerator, Callable
from typing import Any

import httpx
import orjson
import pytest

from providers import errors
from providers.base import Dialect, WireDialect
from providers.capabilities import CAPABILITIES
from providers.config import ProviderConfig
from providers.http.dialects import DIALECTS, RELAY_DIALECTS
from providers.http.exchange import HttpProvider
from providers.http.upstream import Upstream

Json = dict[str, Any]
Answering = Callable[[httpx.Request], httpx.Response]

KEY = "sk-upstream-secret"
URL = "http://engine.internal:8000/v1"


def upstream(answering: Answering, **config: Any) -> Upstream:
    settings = ProviderConfig.model_validate(
        {"type": "openai_compatible", "base_url": URL, "api_key": KEY, "retries": 0, **config}
    )
    return Upstream("engine", settings, URL, httpx.MockTransport(answering))


async def post(answering: Answering, **config: Any) -> Json:
    asked = upstream(answering, **config)
    return asked.parse_json(await (await asked.post("/chat/completions", {"a": 1}, stream=False)).read_body(10_000))


def answers(status: int, body: object = None, headers: dict[str, str] | None = None) -> Answering:
    content = body if isinstance(body, bytes) else orjson.dumps(body)
    return lambda _: httpx.Response(status, headers=headers, content=content)


def fails(failure: Exception) -> Answering:
    def answering(_: httpx.Request) -> httpx.Response:
        raise failure

    return answering


async def test_a_request_carries_the_key_and_the_operators_headers() -> None:
    seen: list[httpx.Request] = []

    def answering(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={"ok": True})

    assert await post(answering, headers={"X-Team": "a", "Accept-Encoding": "gzip"}) == {"ok": True}
    [request] = seen
    assert str(request.url) == f"{URL}/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["x-team"] == "a"
    assert request.headers.get_list("accept-encoding") == ["gzip"]
    assert request.headers["accept"] == "application/json"
    assert orjson.loads(request.content) == {"a": 1}


async def test_without_a_key_none_is_sent() -> None:
    seen: list[httpx.Request] = []

    def answering(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={})

    await post(answering, api_key=None)
    assert "authorization" not in seen[0].headers


@pytest.mark.parametrize(
    ("kind", "streamed", "expected"),
    [("llama_server", True, "close"), ("llama_server", False, None), ("vllm", True, None)],
)
async def test_a_server_that_closes_after_streams_gets_connection_close(
    kind: str, streamed: bool, expected: str | None
) -> None:
    seen: list[httpx.Request] = []

    def answering(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={})

    await upstream(answering, type=kind).post("/completion", {}, stream=streamed)
    assert seen[0].headers.get("connection") == expected


FAILURES: dict[str, tuple[Answering, type[errors.ProviderError]]] = {
    "no connection": (fails(httpx.ConnectError("no")), errors.UpstreamUnreachable),
    "no connection in time": (fails(httpx.ConnectTimeout("no")), errors.UpstreamUnreachable),
    "no connection to be had": (fails(httpx.PoolTimeout("no")), errors.ConnectionsExhausted),
    "a connection that broke": (fails(httpx.RemoteProtocolError("no")), errors.UpstreamUnreachable),
    "silence": (fails(httpx.ReadTimeout("no")), errors.UpstreamTimeout),
    "what is not JSON": (answers(200, b"<html>"), errors.UpstreamGarbled),
    "what is no object": (answers(200, [1]), errors.UpstreamGarbled),
    "too much": (answers(200, b" " * 10_001), errors.UpstreamGarbled),
    "400": (answers(400, {}), errors.UpstreamRejected),
    "401": (answers(401, {}), errors.UpstreamUnauthorized),
    "403": (answers(403, {}), errors.UpstreamUnauthorized),
    "404": (answers(404, {}), errors.UpstreamModelNotFound),
    "429": (answers(429, {}), errors.UpstreamRateLimited),
    "500": (answers(500, {}), errors.UpstreamRejected),
    "503": (answers(503, {}), errors.UpstreamOverloaded),
    "529": (answers(529, {}), errors.UpstreamOverloaded),
    "a redirect": (answers(307, headers={"location": "http://elsewhere"}), errors.UpstreamRejected),
    "a prompt too long": (
        answers(400, {"error": {"message": "maximum context length is 9 tokens"}}),
        errors.ContextLengthExceeded,
    ),
    "a prompt too long, by its code": (
        answers(400, {"error": {"message": "no", "code": "context_length_exceeded"}}),
        errors.ContextLengthExceeded,
    ),
    "a rate that only sounds like a long prompt": (
        answers(429, {"error": {"message": "too many tokens"}}),
        errors.UpstreamRateLimited,
    ),
}


@pytest.mark.parametrize(("answering", "kind"), FAILURES.values(), ids=FAILURES)
async def test_each_failure_has_its_error_class(answering: Answering, kind: type[errors.ProviderError]) -> None:
    with pytest.raises(errors.ProviderError) as failure:
        await post(answering)
    assert type(failure.value) is kind
    assert failure.value.provider == "engine"


def nest(levels: int = 200) -> object:
    return [nest(levels - 1)] if levels else "deep"


WORDS: dict[str, tuple[object, str]] = {
    "OpenAI's": ({"error": {"message": "boom", "type": "t", "code": "c", "param": "p"}}, "boom"),
    "a string": ({"error": "boom"}, "boom"),
    "a message of its own": ({"message": "boom", "object": "error"}, "boom"),
    "FastAPI's": ({"detail": "boom"}, "boom"),
    "Gemini's list": ([{"error": {"message": "boom"}}], "boom"),
    "FastAPI's list": ({"detail": [{"msg": "boom"}]}, "[{'msg': 'boom'}]"),
    "a message nested too deep": ({"error": {"message": nest()}}, "the upstream replied with status 400"),
    "a detail nested too deep": ({"detail": nest()}, "the upstream replied with status 400"),
    "details nested too deep": (
        {"error": {"message": "boom", "details": {"a": nest()}}},
        "the upstream replied with status 400",
    ),
    "a report nested too deep": (
        {"error": {"code": "content_filter", "innererror": nest()}},
        "the upstream replied with status 400",
    ),
    "no object": ([], "the upstream replied with status 400"),
    "no JSON": (b"<html>", "the upstream replied with status 400"),
    "nothing": (b"", "the upstream replied with status 400"),
}


@pytest.mark.parametrize(("body", "message"), WORDS.values(), ids=WORDS)
async def test_an_error_is_read_as_servers_write_it(body: object, message: str) -> None:
    with pytest.raises(errors.UpstreamRejected) as failure:
        await post(answers(400, body))
    assert failure.value.message == message


async def test_details_beside_the_upstreams_message_are_preserved() -> None:
    error = {"message": "boom", "type": "t", "code": 7, "param": "p"}
    headers = {"retry-after": "7", "retry-after-ms": "7000", "x-should-retry": "true", "server": "x"}
    with pytest.raises(errors.UpstreamRejected) as failure:
        await post(answers(400, {"error": error}, headers))
    rejected = failure.value
    assert (rejected.status, rejected.kind, rejected.code, rejected.param) == (400, "t", "7", "p")
    assert rejected.headers == {"retry-after": "7", "retry-after-ms": "7000", "x-should-retry": "true"}


TEMPLATES = {
    "llama.cpp's": (
        "\n------------\nWhile executing CallExpression at line 85, column 32 in source:\n...\n"
        "Error: Jinja Exception: System message must be at the beginning."
    ),
    "llama.cpp's, older": "System message must be at the beginning at row 12, column 5:\n{%- if not loop.first %}",
    "LM Studio's": 'Error rendering prompt with jinja template: "Conversation roles must alternate".',
    "Ollama's": '{"error":{"code":500,"message":"Error: Jinja Exception: No user query found.","type":"server_error"}}',
}


@pytest.mark.parametrize("words", TEMPLATES.values(), ids=list(TEMPLATES))
async def test_a_conversation_that_a_template_refuses_is_the_clients_to_change(words: str) -> None:
    with pytest.raises(errors.UpstreamRejected) as refused:
        await post(answers(500, {"error": {"message": words}}))
    assert (type(refused.value), refused.value.status) == (errors.UpstreamRejected, 400)


async def test_any_other_failure_stays_the_upstreams() -> None:
    with pytest.raises(errors.UpstreamRejected) as failed:
        await post(answers(500, {"error": {"message": "row 5 of column 7 is gone"}}))
    assert failed.value.status == 500


SECRETS = {
    "the key": (f"bad key {KEY}!", "bad key [hidden]!"),
    "another key": ("bad key sk-live-abcdef123456", "bad key [hidden]"),
    "a masked key": ("bad key sk-ab***********yz12", "bad key [hidden]"),
    "a key of Google's": ("bad key AIzaSyD-abc_123456", "bad key [hidden]"),
    "a header": ("sent Bearer abc.def", "sent [hidden]"),
    "the address": (f"no answer from {URL}/chat/completions today", "no answer from [hidden] today"),
    "the host": ("no answer from engine.internal:8000 today", "no answer from [hidden] today"),
    "a value of a header": ("bad team header-value", "bad team [hidden]"),
}


@pytest.mark.parametrize(("text", "expected"), SECRETS.values(), ids=SECRETS)
async def test_secrets_are_hidden(text: str, expected: str) -> None:
    with pytest.raises(errors.UpstreamRejected) as failure:
        await post(answers(500, {"error": {"message": text}}), headers={"x-team": "header-value"})
    assert failure.value.message == expected


@pytest.mark.parametrize("key", ["", "EMPTY"], ids=["none", "a word"])
def test_a_key_that_is_no_secret_is_left_alone(key: str) -> None:
    assert upstream(answers(200), api_key=key or None).redact("an EMPTY answer") == "an EMPTY answer"


async def test_a_message_without_an_end_is_cut() -> None:
    with pytest.raises(errors.UpstreamRejected) as failure:
        await post(answers(500, {"error": {"message": "x " * 20_000}}))
    assert len(failure.value.message) == 2000


class Breaking(httpx.AsyncByteStream):
    """A body that breaks off."""

    def __init__(self, failure: Exception) -> None:
        self._failure = failure

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        yield b"half"
        raise self._failure


@pytest.mark.parametrize(
    ("failure", "kind"),
    [(httpx.ReadError("no"), errors.UpstreamBroken), (httpx.ReadTimeout("no"), errors.UpstreamTimeout)],
    ids=["broken", "silent"],
)
async def test_a_truncated_body_has_its_error_class(failure: Exception, kind: type[errors.ProviderError]) -> None:
    for read_all in (_read_whole, _read_stream):
        reply = await upstream(lambda _: httpx.Response(200, stream=Breaking(failure))).post("/x", {}, stream=True)
        with pytest.raises(kind):
            await read_all(reply)


async def _read_whole(reply: Any) -> None:
    await reply.read_body(100)


async def _read_stream(reply: Any) -> None:
    async for read in reply.iterate():
        assert read == b"half"


async def test_an_error_whose_body_breaks_off_keeps_its_status() -> None:
    broken = httpx.Response(429, stream=Breaking(httpx.ReadError("no")))
    with pytest.raises(errors.UpstreamRateLimited):
        await post(lambda _: broken)


async def test_only_requests_without_a_reply_are_retried() -> None:
    tries: list[int] = []

    def answering(_: httpx.Request) -> httpx.Response:
        tries.append(1)
        if len(tries) == 1:
            raise httpx.ConnectError("no")
        return httpx.Response(500)

    with pytest.raises(errors.UpstreamRejected):
        await post(answering, retries=3)
    assert len(tries) == 2


HIDDEN: dict[str, tuple[object, type[errors.ProviderError]]] = {
    "a rate limit by its code": ({"code": "rate_limit_exceeded", "message": "m"}, errors.UpstreamRateLimited),
    "a quota": ({"code": "insufficient_quota", "message": "m"}, errors.UpstreamRateLimited),
    "an overload by its type": ({"type": "overloaded_error", "message": "m"}, errors.UpstreamOverloaded),
    "our key": ({"code": "invalid_api_key", "message": "m"}, errors.UpstreamUnauthorized),
    "a status": ({"code": 429, "message": "m"}, errors.UpstreamRateLimited),
    "words": ("boom", errors.UpstreamRejected),
    "a status beyond those of HTTP": ({"code": 99_999, "message": "m"}, errors.UpstreamRejected),
    "a code nested too deep": ({"code": nest(), "message": "m"}, errors.UpstreamRejected),
    "a message nested too deep for JSON": ({"message": nest(500)}, errors.UpstreamRejected),
}


@pytest.mark.parametrize(("error", "kind"), HIDDEN.values(), ids=HIDDEN)
def test_an_error_with_status_200_has_its_proper_class(error: object, kind: type[errors.ProviderError]) -> None:
    found = upstream(answers(200)).find_error({"error": error})
    assert isinstance(found, errors.UpstreamRejected)
    assert type(found) is kind
    assert 400 <= found.status < 600


@pytest.mark.parametrize("answer", [{}, {"error": None}], ids=["no error", "null"])
def test_an_answer_without_an_error_is_none(answer: Json) -> None:
    assert upstream(answers(200)).find_error(answer) is None


MODELS: dict[str, tuple[object, list[str] | None]] = {
    "names": ({"data": [{"id": "a"}, {"id": "b"}]}, ["a", "b"]),
    "rows without a name": ({"data": [{"id": "a"}, {"id": 7}, "b"]}, ["a"]),
    "no list": ({"data": None}, None),
}


@pytest.mark.parametrize(("body", "expected"), MODELS.values(), ids=MODELS)
async def test_models_are_listed(body: object, expected: list[str] | None) -> None:
    provider = HttpProvider(upstream(answers(200, body)), CAPABILITIES["vllm"], "chat")
    if expected is not None:
        assert await provider.list_models() == expected
        return
    with pytest.raises(errors.UpstreamGarbled):
        await provider.list_models()


def test_the_apis_of_clients_have_one_path_for_turns_and_relays() -> None:
    assert {DIALECTS[dialect].path for dialect in ("chat", "responses")} == {"/chat/completions", "/responses"}
    of_turns: dict[Dialect, WireDialect] = {"chat": "chat", "responses": "responses", "messages": "anthropic"}
    assert of_turns.keys() == RELAY_DIALECTS.keys()
    assert all(RELAY_DIALECTS[relayed].path == DIALECTS[turns].path for relayed, turns in of_turns.items())


async def test_a_key_in_a_code_is_hidden() -> None:
    with pytest.raises(errors.UpstreamRejected) as refusal:
        await post(answers(400, {"error": {"message": "no", "code": KEY}}))
    assert refusal.value.code == "[hidden]"
