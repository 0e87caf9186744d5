"""The contract of every provider, over a real socket. A new adapter is a row in `conftest.KINDS`."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import get_args

import pytest

from providers import errors
from providers.base import Dialect, RelayedDialect, WireDialect
from providers.config import PROVIDER_DEFAULTS, ProviderType
from tests.contract.conftest import KEY, LONG_S, QUESTION, SILENCE_S, STREAMED, Build, events_of, text_of
from tests.contract.conftest import KINDS as PROVIDERS
from tests.polling import PROMPT_S
from tests.upstream import Drip, Hang, Reply, Script, ScriptedUpstream, closed_port, error_reply, no_http, reset
from tests.upstream.builders import SSE, json_reply
from tests.upstream.faults import ANSWERS, TEXT, sound
from tests.upstream.ollama import ollama_tags
from translation.representation.events import Failed, Finished
from translation.representation.profile import DEFAULT_PROFILE
from translation.representation.turn import Turn

GEMINI_MODELS = [{"name": "models/a"}, {"name": "models/b"}]
RELAYING = {name: kind for name, kind in PROVIDERS.items() if kind[1] in get_args(RelayedDialect)}


@STREAMED
async def test_a_turn_is_answered(kind: tuple[ProviderType, WireDialect], provider_at: Build, stream: bool) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(sound(ANSWERS[kind[1]]))
        events = await events_of(await provider_at(upstream.url), stream=stream)
        assert text_of(events) == "".join(TEXT)
        assert isinstance(events[-1], Finished)
        assert events[-1].usage is not None
        [request] = upstream.requests
        assert request.headers[PROVIDER_DEFAULTS[kind[0]].key_header].removeprefix("Bearer ") == KEY
        assert request.model == "m"
        assert request.streams == stream


async def test_reads_may_split_a_stream_anywhere(dialect: WireDialect, provider_at: Build) -> None:
    stream = ANSWERS[dialect].stream
    async with ScriptedUpstream() as upstream:
        provider = await provider_at(upstream.url)
        received = []
        for size in (len(stream), 1, 7, 64):
            upstream.script(Reply(headers=SSE, body=[Drip(stream, size=size)]))
            received.append(text_of(await events_of(provider)))
        assert received == ["".join(TEXT)] * len(received)


async def test_a_stream_that_stops_too_early_fails(dialect: WireDialect, provider_at: Build) -> None:
    answer = ANSWERS[dialect]
    async with ScriptedUpstream() as upstream:
        provider = await provider_at(upstream.url)
        for kept in range(answer.cut + 1):
            upstream.script(Reply(headers=SSE, body=b"".join(answer.frames[:kept])))
            *_, last = await events_of(provider)
            assert isinstance(last, Failed)
            assert last.code == "upstream_truncated"


REFUSALS: dict[str, tuple[Script, type[errors.ProviderError]]] = {
    "a bad request": (error_reply(400, "no"), errors.UpstreamRejected),
    "a bad key": (error_reply(401, "no"), errors.UpstreamUnauthorized),
    "an unknown model": (error_reply(404, "no"), errors.UpstreamModelNotFound),
    "too many requests": (error_reply(429, "no"), errors.UpstreamRateLimited),
    "a failure": (error_reply(500, "no"), errors.UpstreamRejected),
    "a bad gateway": (error_reply(502, "no"), errors.UpstreamRejected),
    "an overload": (error_reply(503, "no"), errors.UpstreamOverloaded),
    "a time-out of its own": (error_reply(504, "no"), errors.UpstreamRejected),
    "an overload that is no fault of the server's": (error_reply(529, "no"), errors.UpstreamOverloaded),
    "a prompt too long": (error_reply(400, "maximum context length is 9 tokens"), errors.ContextLengthExceeded),
    "what is not JSON": (Reply(headers={"content-type": "application/json"}, body=b"<html>"), errors.UpstreamGarbled),
    "silence": (Reply(headers=SSE, body=[b"\n\n", Hang()]), errors.UpstreamTimeout),
}


@pytest.mark.parametrize(("script", "refusal"), REFUSALS.values(), ids=REFUSALS)
async def test_each_failure_has_its_code(
    script: Script, refusal: type[errors.ProviderError], dialect: WireDialect, provider_at: Build
) -> None:
    async with ScriptedUpstream() as upstream:
        silence_s = SILENCE_S if refusal is errors.UpstreamTimeout else LONG_S
        provider = await provider_at(upstream.url, silence_s=silence_s)
        upstream.script(script)
        with pytest.raises(errors.ProviderError) as failure:
            await events_of(provider)
        assert type(failure.value) is refusal
        upstream.script(sound(ANSWERS[dialect]))
        assert text_of(await events_of(provider)) == "".join(TEXT), "the next turn is unaffected"


async def test_an_upstream_that_closes_at_once_is_unreachable(dialect: WireDialect, provider_at: Build) -> None:
    async with ScriptedUpstream() as upstream:
        provider = await provider_at(upstream.url)
        upstream.script(reset)
        with pytest.raises(errors.UpstreamUnreachable):
            await events_of(provider)
        upstream.script(sound(ANSWERS[dialect]))
        assert text_of(await events_of(provider)) == "".join(TEXT), "the next turn is unaffected"


async def test_a_server_without_http_counts_as_reachable(provider_at: Build) -> None:
    async with ScriptedUpstream() as upstream:
        provider = await provider_at(upstream.url)
        upstream.script(no_http)
        with pytest.raises(errors.UpstreamGarbled):
            await events_of(provider)


async def test_an_upstream_that_does_not_accept_connections_is_unreachable(provider_at: Build) -> None:
    with pytest.raises(errors.UpstreamUnreachable):
        await events_of(await provider_at(f"http://127.0.0.1:{closed_port()}/v1"))


async def test_closing_early_closes_the_connection(dialect: WireDialect, provider_at: Build) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(Reply(headers=SSE, body=[ANSWERS[dialect].opening, Hang()]))
        exchange = (await provider_at(upstream.url)).prepare(Turn(**QUESTION), DEFAULT_PROFILE)
        async with aclosing(exchange.batches()) as batches:
            await anext(batches)
        async with asyncio.timeout(PROMPT_S):
            await (await upstream.received(1)).closed


async def test_closing_before_the_first_byte_closes_the_connection(provider_at: Build) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(Reply(headers=SSE, body=[Hang()]))
        asking = asyncio.get_running_loop().create_task(events_of(await provider_at(upstream.url)))
        request = await upstream.received(1)
        asking.cancel()
        async with asyncio.timeout(PROMPT_S):
            await request.closed


@pytest.mark.parametrize("kind", RELAYING.values(), ids=RELAYING)
async def test_a_relay_gets_the_bytes_as_they_are(kind: tuple[ProviderType, Dialect], provider_at: Build) -> None:
    dialect = kind[1]
    answer = ANSWERS[dialect]
    async with ScriptedUpstream() as upstream:
        upstream.script(sound(answer))
        provider = await provider_at(upstream.url)
        assert await _joined(provider.prepare_relay(dialect, {"model": "m", "stream": True}).reads()) == answer.stream
        whole = await provider.prepare_relay(dialect, {"model": "m"}).fetch_body()
        assert isinstance(whole, dict)
        assert "".join(TEXT) in str(whole)
        assert [request.json["model"] for request in upstream.requests] == ["m", "m"]


async def _joined(reads: AsyncGenerator[bytes, None]) -> bytes:
    return b"".join([read async for read in reads])


async def test_models_are_listed(provider_at: Build) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.on("/models", json_reply({"data": [{"id": "a"}, {"id": "b"}], "models": GEMINI_MODELS}))
        upstream.on("/api/tags", ollama_tags("a", "b"))
        assert await (await provider_at(upstream.url)).list_models() == ["a", "b"]
