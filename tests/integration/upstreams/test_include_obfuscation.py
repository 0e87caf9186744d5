"""`include_obfuscation` on every kind of stream: translated, relayed, stored, replayed from the log."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from tests import databases
from tests.serving import serving
from tests.upstream import ScriptedUpstream, chat_text, responses_text

PIECES = ("Good ", "day ", "to ", "you.")
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "translated": ("responses", {"model": "chat", "input": "Hi"}),
    "relayed": ("responses", {"model": "responses", "input": "Hi"}),
    "not stored": ("responses", {"model": "chat", "input": "Hi", "store": False}),
    "in the background": ("responses", {"model": "chat", "input": "Hi", "background": True}),
    "relayed chat": ("chat/completions", {"model": "chat", "messages": [{"role": "user", "content": "Hi"}]}),
    "stored chat": (
        "chat/completions",
        {"model": "chat", "messages": [{"role": "user", "content": "Hi"}], "store": True},
    ),
    "translated chat": ("chat/completions", {"model": "responses", "messages": [{"role": "user", "content": "Hi"}]}),
}


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with ScriptedUpstream() as upstream:
        upstream.on("/chat/completions", chat_text(*PIECES))
        upstream.on("/responses", responses_text(*PIECES))
        config = {
            "providers": {
                name: {"type": "openai_compatible", "base_url": upstream.url, "dialects": [name]}
                for name in ("chat", "responses")
            },
            "models": {name: {"provider": name} for name in ("chat", "responses")},
            "store": {"url": databases.ready_sqlite(tmp_path / "state.db")},
        }
        with serving(config) as gateway:
            async with httpx.AsyncClient(base_url=gateway.v1 + "/", trust_env=False, timeout=60) as running:
                yield running


def deltas_in(wire: bytes) -> list[tuple[int, dict[str, Any]]]:
    """Returns (size of the frame, payload) of each delta with text."""
    frames = [frame + b"\n\n" for frame in wire.split(b"\n\n") if b"data: {" in frame]
    found = [(len(frame), orjson.loads(frame.partition(b"data: ")[2])) for frame in frames]
    return [(size, payload) for size, payload in found if _text_of(payload)]


def _text_of(payload: dict[str, Any]) -> str:
    if "choices" in payload:
        return "".join(choice["delta"].get("content") or "" for choice in payload["choices"])
    return str(payload["delta"]) if payload["type"] == "response.output_text.delta" else ""


@pytest.mark.parametrize(("path", "body"), REQUESTS.values(), ids=REQUESTS)
async def test_deltas_are_padded_if_requested(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> None:
    plain = await client.post(path, json={**body, "stream": True})
    padded = await client.post(path, json={**body, "stream": True, "stream_options": {"include_obfuscation": True}})
    assert plain.status_code == padded.status_code == 200
    assert "x-gateway-loss" not in padded.headers
    assert not [payload for _, payload in deltas_in(plain.content) if "obfuscation" in payload]
    deltas = deltas_in(padded.content)
    assert "".join(_text_of(payload) for _, payload in deltas) == "".join(PIECES)
    assert all(payload["obfuscation"] for _, payload in deltas)
    assert all(size % 128 == 0 for size, _ in deltas)


async def test_a_replay_is_padded_as_its_own_request_requires(client: httpx.AsyncClient) -> None:
    body = {"model": "chat", "input": "Hi", "background": True, "stream": True}
    created = await client.post("responses", json=body)
    response_id = orjson.loads(created.content.partition(b"data: ")[2].partition(b"\n")[0])["response"]["id"]
    for asked in ("false", "true"):
        replay = await client.get(f"responses/{response_id}", params={"stream": "true", "include_obfuscation": asked})
        deltas = deltas_in(replay.content)
        assert "".join(_text_of(payload) for _, payload in deltas) == "".join(PIECES)
        assert all(("obfuscation" in payload) == (asked == "true") for _, payload in deltas)
