"""No body brings the gateway down: every route that takes JSON gets damaged bodies, and none is answered by a 500.

The application is called without a socket, so that thousands of bodies take seconds. The seeds are fixed: a failure
comes again, and its note has the body.
"""

import asyncio
import json
import struct
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

import httpx
import orjson
import pytest

from gateway.config import settings as settings_of
from gateway.http.guard import DrainState
from gateway.process.app import create_app
from tests import databases
from tests.faults.client_view import CHAT, RESPONSES, Json
from tests.faults.config import config
from tests.fuzz import test_agui, test_gemini, test_generate, test_messages, test_ollama
from tests.fuzz.damage.mutations import mutated
from tests.fuzz.seeds import SEEDS
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import json_reply
from tests.upstream.faults import ANSWERS, sound

KEY: Final = "key-of-the-administrator"
BODIES: Final = 90
"""The bodies that each route gets."""

_TEXTS: Final[list[Any]] = ["a", ["a", "b with tools"], [1, 2, 3], [[1, 2], [3]], [{"tools": "x"}], {"text": "a"}]
_MCP: Final[Json] = {
    "type": "mcp",
    "server_label": "s",
    "server_url": "https://192.0.2.1/mcp",
    "authorization": "t",
    "headers": {"x-key": "k"},
    "require_approval": {"never": {"tool_names": ["a"]}, "always": {"read_only": False}},
    "allowed_tools": {"tool_names": ["a"], "read_only": True},
}
_WITH_SERVERS: Final[list[Json]] = [
    {"model": "m", "input": [{"role": "user", "content": "a"}], "tools": [_MCP, {"type": "function", "name": "f"}]},
    {"model": "m", "input": [{"type": "tool_search_output", "tools": [_MCP]}, {"role": "user", "content": "a"}]},
]
_EMBEDDINGS: Final = [
    {"model": "m", "input": value, "encoding_format": "float", "dimensions": 3, "tools": [_MCP], "mcp_servers": [1]}
    for value in _TEXTS
]
_PLAIN: Final[list[Json]] = [
    *({"model": "m", "input": value, "prompt": value} for value in _TEXTS),
    {"model": "m", "query": "a", "documents": ["b", {"text": "tools"}], "top_n": 1, "tools": [1], "mcp_servers": {}},
]
_ITEMS: Final[Json] = {"items": SEEDS[RESPONSES][1]["input"], "metadata": {"a": "b"}}
_SERVER: Final[Json] = {
    "url": "https://192.0.2.1/mcp",
    "headers": {"x-key": "k"},
    "approval": {"never": {"tool_names": ["a"]}, "always": {"read_only": True}},
    "allow": ["a*"],
    "list_ttl_s": 5,
    "repeat": "safe",
    "auth": {"bearer": "token"},
}
_AGUI: Final[list[Json]] = [
    test_agui.SEED,
    {**test_agui.SEED, "forwardedProps": {"model": "m", "tools": [_MCP], "store": False, "tool_choice": "auto"}},
]
_GENERATION: Final = test_gemini.SEEDS
_CONTENTS: Final[list[Json]] = [
    {"content": {"parts": [{"text": "a"}]}, "taskType": "RETRIEVAL_QUERY", "outputDimensionality": 3},
    {"requests": [{"model": "models/m", "content": {"parts": [{"text": "tools"}]}}]},
    {"generateContentRequest": {"model": "models/m", **test_gemini.SEEDS[0]}},
]

ROUTES: Final[dict[str, list[Json]]] = {
    "/v1/responses": [*SEEDS[RESPONSES], *_WITH_SERVERS],
    "/v1/responses/compact": [*SEEDS[RESPONSES], *_WITH_SERVERS],
    "/v1/responses/input_tokens": [*SEEDS[RESPONSES], *_WITH_SERVERS],
    "/v1/responses/resp_1/cancel": [{"reason": "none"}],
    "/v1/conversations": [_ITEMS],
    "/v1/conversations/conv_1": [_ITEMS],
    "/v1/conversations/conv_1/items": [_ITEMS],
    "/v1/chat/completions": SEEDS[CHAT],
    "/v1/chat/completions/chatcmpl_1": [{"metadata": {"a": "b"}}],
    "/generate": [test_generate.SEED],
    "/v1/messages": test_messages.SEEDS,
    "/v1/messages/count_tokens": [
        {name: value for name, value in seed.items() if name not in ("max_tokens", "stream")}
        for seed in test_messages.SEEDS
    ],
    "/v1beta/models/m:generateContent": _GENERATION,
    "/v1beta/models/m:streamGenerateContent": _GENERATION,
    "/v1beta/models/m:countTokens": [*_GENERATION, *_CONTENTS],
    "/v1beta/models/m:embedContent": _CONTENTS,
    "/v1beta/models/m:batchEmbedContents": _CONTENTS,
    "/v1/agui": _AGUI,
    "/v1/agui/m": _AGUI,
    "/api/chat": test_ollama.CHAT_SEEDS,
    "/api/generate": test_ollama.GENERATE_SEEDS,
    "/api/show": [{"model": "m", "verbose": True}],
    "/api/embed": [*_EMBEDDINGS, {"model": "m", "input": ["a"], "options": {}, "truncate": True}],
    "/api/embeddings": [{"model": "m", "prompt": "a", "options": {}}, *_EMBEDDINGS],
    "/v1/embeddings": _EMBEDDINGS,
    "/v1/completions": _PLAIN,
    "/v1/rerank": _PLAIN,
    "/v1/moderations": _PLAIN,
    "/v1/audio/speech": _PLAIN,
    "/v1/images/generations": _PLAIN,
    "/tokenize": _PLAIN,
    "/detokenize": [{"model": "m", "tokens": [1, 2]}],
    "PUT /v1/gateway/mcp-servers/added": [_SERVER],
}
_EVERY_SEED: Final = [seed for seeds in ROUTES.values() for seed in seeds]
_ENDPOINTS: Final = (
    *("completions", "embeddings", "rerank", "moderations", "speech", "image_generations"),
    *("tokenize", "detokenize"),
)
_UPSTREAMS: Final = ("scripted", "chat", "responses", "anthropic", "gemini", "ollama")


def _nest(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


_EXTREMES: Final[list[Any]] = [
    *(10**30, -(10**30), 10**400, float("inf"), float("nan"), 1e-320, struct.unpack("d", b"\xff" * 8)[0]),
    *("\ud800", "\udfff\ud800", "\x00" * 9, "\u202e", "a" * 70_000, _nest(150), _nest(400), {"a": _nest(60)}),
    *({"__proto__": {}, "$ref": "#"}, {"\ud800": 1}, [{"type": "mcp"}], {"tools": [[]]}, [1, "a", None, {}]),
]


def _damage(random: Random, seeds: list[Json]) -> bytes:
    """Returns a damaged body. Some have values that parsers stumble over, and some are no JSON."""
    body = mutated(random, random.choice(seeds), _EVERY_SEED)
    kind = random.random()
    if kind < 0.3 and body:
        container: Any = body
        key: Any = random.choice(list(body))
        while isinstance(container[key], dict | list) and container[key] and random.random() < 0.8:
            container = container[key]
            key = random.choice(list(container)) if isinstance(container, dict) else random.randrange(len(container))
        container[key] = random.choice(_EXTREMES)
    text = json.dumps(body).encode()
    if kind > 0.95:
        return text[: random.randrange(len(text))]
    if kind > 0.92:
        place = random.randrange(len(text))
        return text[:place] + random.randbytes(3) + text[place:]
    return text


def _configure(kind: str, url: str, folder: Path) -> Json:
    upstream: Json = {"type": "scripted"}
    if kind != "scripted":
        upstream = config(url, kind, capabilities={"endpoints": [*_ENDPOINTS]})["providers"]["upstream"]
    return {
        "providers": {"upstream": upstream},
        "models": {"*": {"provider": "upstream"}},
        "auth": {"keys": [{"name": "ann", "key": KEY, "admin": True}]},
        "store": {"url": databases.ready_sqlite(folder / "state.db")},
    }


@asynccontextmanager
async def served(kind: str, folder: Path) -> AsyncIterator[Any]:
    """Yields the application before an upstream that answers everything."""
    async with ScriptedUpstream() as upstream:
        upstream.script(json_reply({"object": "list", "data": [{"embedding": [0.5], "index": 0}], "model": "m"}))
        if kind in ANSWERS:
            answer = ANSWERS[kind]
            for path in ("/chat/completions", "/responses", "/messages", "/api/chat"):
                upstream.on(path, sound(answer))
        settings = settings_of.parse_settings(_configure(kind, upstream.url, folder), environ={})
        app = create_app(settings, DrainState())
        framework: Any = app
        while not hasattr(framework, "router"):
            framework = framework._app
        async with framework.router.lifespan_context(framework):
            yield app


def _check_error(path: str, reply: httpx.Response) -> None:
    """Checks that an error has the form of its API, with a message."""
    body = reply.json()
    error = body["error"]
    if path.startswith("/api/"):
        assert isinstance(error, str)
        assert error
        return
    assert error["message"]
    if path.startswith("/v1beta/"):
        assert error["code"] == reply.status_code
    elif path.startswith("/v1/messages"):
        assert body["type"] == "error"
    else:
        assert list(error) == ["message", "type", "param", "code"]


@pytest.mark.parametrize("kind", _UPSTREAMS)
async def test_no_body_is_answered_by_a_500(kind: str, tmp_path: Path) -> None:
    random, statuses, failures = Random(f"every route {kind}"), Counter[int](), list[str]()
    async with served(kind, tmp_path) as app:
        transport = httpx.ASGITransport(app)
        headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as http:
            for route, seeds in ROUTES.items():
                method, _, path = route.rpartition(" ")
                for _ in range(BODIES if kind == "scripted" else BODIES // 3):
                    body = _damage(random, seeds)
                    try:
                        async with asyncio.timeout(60):
                            reply = await http.request(method or "POST", path, content=body)
                        statuses[reply.status_code] += 1
                        # An upstream that does not fit the request is reported as such.
                        assert reply.status_code in {*range(200, 300), *range(400, 500), 502}, reply.text[:300]
                        if reply.status_code >= 400:
                            _check_error(path, reply)
                    except Exception as error:
                        failures.append(f"{route} {error!r} {body[:2000].decode(errors='backslashreplace')}")
    assert not failures, "\n".join([f"{len(failures)} bodies failed", *failures[:10]])
    assert statuses[200] > 100
    assert statuses[400] > 500


async def test_no_event_on_a_websocket_is_answered_by_a_500(tmp_path: Path) -> None:
    random = Random("websocket")
    async with served("scripted", tmp_path) as app:
        for _ in range(20):
            texts = [_damage_event(random) for _ in range(15)]
            try:
                ended = await _talk(app, texts)
            except Exception as error:
                error.add_note(repr([text[:1500] for text in texts]))
                raise
            assert ended >= 15


def _damage_event(random: Random) -> str:
    seeds = [{"type": "response.create", **seed} for seed in (*SEEDS[RESPONSES], *_WITH_SERVERS)]
    return _damage(random, seeds).decode(errors="replace")


async def _talk(app: Callable[..., Any], texts: list[str]) -> int:
    """Sends messages on one connection, and returns how many turns and errors have ended."""
    incoming: asyncio.Queue[Json] = asyncio.Queue()
    ends: asyncio.Queue[Json] = asyncio.Queue()

    async def send(message: Json) -> None:
        if message["type"] == "websocket.send":
            event = orjson.loads(message["text"])
            if event["type"] in ("response.completed", "response.incomplete", "response.failed", "error"):
                ends.put_nowait(event)

    incoming.put_nowait({"type": "websocket.connect"})
    scope = {
        "type": "websocket",
        "path": "/v1/responses",
        "headers": [(b"authorization", f"Bearer {KEY}".encode()), (b"host", b"localhost")],
        "query_string": b"",
    }
    talking = asyncio.create_task(app(scope, incoming.get, send))
    count = 0
    for text in texts:
        incoming.put_nowait({"type": "websocket.receive", "text": text})
        async with asyncio.timeout(60):
            event = await ends.get()
        assert event.get("status", 200) < 500 or "response" in event, event
        assert (event.get("response", {}).get("error") or {}).get("code") != "internal_error", event
        count += 1
    incoming.put_nowait({"type": "websocket.disconnect", "code": 1000})
    await asyncio.wait_for(talking, 20)
    return count
