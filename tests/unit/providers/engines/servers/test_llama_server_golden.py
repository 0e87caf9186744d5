"""Recorded replies of llama.cpp's server: the pieces of a raw completion, and its refusals."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import orjson
import pytest

from providers import errors
from providers.base import Exchange
from providers.config import ProviderConfig
from providers.engines.base import EngineDelta, GenerationRequest, TokenPrompt
from providers.engines.servers.llama_server import LlamaServerEngine
from providers.engines.servers.remote import ModelCache
from providers.http.upstream import Upstream
from providers.registry import build_provider
from tests.unit.support.golden import GOLDEN, check_pieces, recordings
from tests.upstream import Drip, Reply, ScriptedUpstream
from tests.upstream.builders import SSE, json_reply
from translation.representation.profile import DEFAULT_PROFILE
from translation.representation.turn import Turn

COMPLETIONS = recordings("completion")
NAMED: dict[str, type[errors.ProviderError]] = {
    "llamacpp_context": errors.ContextLengthExceeded,
    "llamacpp_schema": errors.UpstreamRejected,
    "llamacpp_tools": errors.UpstreamRejected,
}


@pytest.fixture
async def server() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as server:
        yield server


def config(server: ScriptedUpstream) -> ProviderConfig:
    return ProviderConfig.model_validate({"type": "llama_server", "base_url": server.url, "retries": 0})


def stream_bytes(recording: Path) -> bytes:
    return recording.read_bytes()


def refusal_of(name: str) -> dict[str, Any]:
    reply: dict[str, Any] = orjson.loads((GOLDEN / "refusals" / f"{name}.json").read_bytes())
    return reply


async def open_batches(exchange: Exchange) -> None:
    async with aclosing(exchange.batches()) as batches:
        await anext(batches)


async def pieces_of(server: ScriptedUpstream, wire: bytes, size: int) -> list[EngineDelta]:
    """Returns the pieces of the stream, if it arrives in reads of this size."""
    server.on("/completion", Reply(headers=SSE, body=[Drip(wire, size=size)]))
    # Where a character's tokens are left out, the engine looks for them in its text.
    server.on("/tokenize", json_reply({"tokens": []}))
    upstream = Upstream("up", config(server), server.url)
    try:
        engine = LlamaServerEngine.for_model(upstream, "m", ModelCache())
        asked = GenerationRequest(max_tokens=100, top_logprobs=2)
        async with aclosing(engine.generate(TokenPrompt(tokens=[1], tail=""), asked)) as pieces:
            return [piece async for piece in pieces]
    finally:
        await upstream.aclose()


@pytest.mark.parametrize("recording", COMPLETIONS, ids=lambda path: path.stem)
async def test_a_recorded_completion_is_understood(
    recording: Path, server: ScriptedUpstream, update_golden: bool
) -> None:
    wire = stream_bytes(recording)
    pieces = await pieces_of(server, wire, len(wire))
    check_pieces(recording, pieces, update=update_golden)
    assert await pieces_of(server, wire, 61) == pieces


@pytest.mark.parametrize("recording", COMPLETIONS, ids=lambda path: path.stem)
async def test_a_recorded_completion_that_stops_too_early_is_no_answer(
    recording: Path, server: ScriptedUpstream
) -> None:
    *frames, _last, empty = stream_bytes(recording).split(b"\n\n")
    assert empty == b""
    cut = b"\n\n".join(frames) + b"\n\n"
    with pytest.raises(errors.UpstreamBroken):
        await pieces_of(server, cut, len(cut))


def test_every_recorded_refusal_has_a_name() -> None:
    assert NAMED.keys() == {path.stem for path in (GOLDEN / "refusals").glob("*.json")}


@pytest.mark.parametrize("name", NAMED)
async def test_a_recorded_refusal_has_its_name(name: str, server: ScriptedUpstream) -> None:
    said = refusal_of(name)
    server.script(json_reply(said["body"], status=said["status"]))
    provider = build_provider("up", config(server))
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
    exchange = provider.prepare(Turn(model="m", items=[item], stream=True), DEFAULT_PROFILE)
    try:
        with pytest.raises(errors.ProviderError) as refusal:
            await open_batches(exchange)
        assert type(refusal.value) is NAMED[name]
        assert said["body"]["error"]["message"] in str(refusal.value)
    finally:
        await provider.aclose()
