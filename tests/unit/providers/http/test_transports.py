"""providers/http/transports.py: both transports behave in the same way."""

from typing import Literal

import pytest

from dataplane.source import Source
from providers.config import ProviderConfig
from providers.errors import UpstreamTimeout, UpstreamUnreachable
from providers.http.upstream import Upstream
from tests.upstream import ScriptedUpstream, chat_text, closed_port, json_reply, silence

TRANSPORTS: tuple[Literal["pooled", "httpx"], ...] = ("pooled", "httpx")


async def read(reply: Source[bytes]) -> bytes:
    return b"".join([piece async for piece in reply.iterate()])


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_stream_arrives_whole(transport: Literal["pooled", "httpx"]) -> None:
    async with ScriptedUpstream() as server:
        server.script(chat_text("Hi", " there"))
        upstream = Upstream("up", ProviderConfig(type="vllm", base_url=server.url, transport=transport), server.url)
        streams = [
            await read(await upstream.post("/chat/completions", {"stream": True}, stream=True)) for _ in range(2)
        ]
        await upstream.aclose()
        assert server.requests[0].headers["accept-encoding"] == "identity"
    assert streams[0] == streams[1]
    assert b"Hi" in streams[0]
    assert streams[0].endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_silence_is_a_timeout(transport: Literal["pooled", "httpx"]) -> None:
    async with ScriptedUpstream() as server:
        server.script(silence)
        config = ProviderConfig(type="vllm", base_url=server.url, transport=transport, silence_s=0.1)
        upstream = Upstream("up", config, server.url)
        with pytest.raises(UpstreamTimeout):
            await read(await upstream.post("/chat/completions", {"stream": True}, stream=True))
        await upstream.aclose()


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_missing_server_is_a_connect_error(transport: Literal["pooled", "httpx"]) -> None:
    url = f"http://127.0.0.1:{closed_port()}/v1"
    upstream = Upstream("up", ProviderConfig(type="vllm", base_url=url, transport=transport, retries=0), url)
    with pytest.raises(UpstreamUnreachable):
        await upstream.get_json("/models")
    await upstream.aclose()


@pytest.mark.parametrize("scheme", ["http://", ""], ids=["an address", "a host and a port"])
async def test_the_proxy_of_the_environment_is_used(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with ScriptedUpstream() as proxy:
        proxy.script(json_reply({"data": []}))
        monkeypatch.setenv("HTTP_PROXY", proxy.url.removesuffix("/v1").replace("http://", scheme))
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        url = "http://model.invalid/v1"
        upstream = Upstream("up", ProviderConfig(type="vllm", base_url=url, transport="httpx"), url)
        assert await upstream.get_json("/models") == {"data": []}
        await upstream.aclose()
        assert [request.path for request in proxy.requests] == ["http://model.invalid/v1/models"]


async def test_addresses_in_no_proxy_are_reached_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ScriptedUpstream() as server:
        server.on("/models", json_reply({"data": []}))
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{closed_port()}")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        upstream = Upstream("up", ProviderConfig(type="vllm", base_url=server.url, transport="httpx"), server.url)
        assert await upstream.get_json("/models") == {"data": []}
        await upstream.aclose()
