"""What the gateway asks of a request's body is computed once, whatever its API and its upstream."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

import httpx
import pytest

from tests.agui_client import run_input, user
from tests.mcp_server import CountingServer
from tests.serving import serving
from tests.upstream import ScriptedUpstream, json_reply
from tests.upstream.faults import ANTHROPIC, CHAT, RESPONSES, sound
from translation.chat.client.facts import read_facts as read_chat
from translation.gemini.client.lift import read_facts as read_gemini
from translation.messages.client.lift import read_facts as read_messages
from translation.messages.client.mcp_servers import lift_mcp_servers
from translation.ollama.client.lift import read_facts as read_ollama
from translation.responses.client.facts import read_facts as read_responses
from translation.responses.compaction import find_lowest_threshold
from translation.tools.credentials import list_credentials

Json = dict[str, Any]
SECRET = "token-of-calc-0123456"
FUNCTION: Json = {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {}}}
CHAT_TOOL: Json = {"type": "function", "function": {"name": "add", "parameters": FUNCTION["parameters"]}}
HELLO: Json = {"role": "user", "content": "Hi"}

UPSTREAMS = {"m": CHAT, "r": RESPONSES, "a": ANTHROPIC}
"""Model -> the reply of its upstream."""

READERS: tuple[Callable[..., Any], ...] = (
    read_chat,
    read_responses,
    read_messages,
    read_gemini,
    read_ollama,
    list_credentials,
    lift_mcp_servers,
    find_lowest_threshold,
)

REQUESTS: dict[str, tuple[str, Json, tuple[Callable[..., Any], ...]]] = {
    "Responses": (
        "/v1/responses",
        {"input": "Hi", "context_management": [{"type": "compaction", "compact_threshold": 5000}], "tools": "mcp"},
        (read_responses, find_lowest_threshold, list_credentials),
    ),
    "Responses with functions": (
        "/v1/responses",
        {"input": "Hi", "tools": [FUNCTION], "tool_choice": "auto"},
        (read_responses,),
    ),
    "Messages": (
        "/v1/messages",
        {"messages": [HELLO], "max_tokens": 50, "mcp_servers": "servers"},
        (read_messages, list_credentials, lift_mcp_servers),
    ),
    "chat": ("/v1/chat/completions", {"messages": [HELLO], "tools": [CHAT_TOOL]}, (read_chat, list_credentials)),
    "Gemini": (
        "/v1beta/models/m:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
        (read_gemini,),
    ),
    "Ollama": ("/api/chat", {"messages": [HELLO], "stream": False}, (read_ollama,)),
    "AG-UI": ("/v1/agui", run_input(user("Hi")), (read_responses, find_lowest_threshold, list_credentials)),
    "generate": ("/generate", {"messages": [HELLO]}, (read_chat,)),
    "Responses, relayed": (
        "/v1/responses",
        {"model": "r", "input": "Hi", "tools": "mcp"},
        (read_responses, find_lowest_threshold, list_credentials),
    ),
    "Messages, relayed": (
        "/v1/messages",
        {"model": "a", "messages": [HELLO], "max_tokens": 50, "mcp_servers": "servers"},
        (read_messages, list_credentials, lift_mcp_servers),
    ),
}
"""API -> its path, a body, and what is asked of it."""


@pytest.fixture
def calls() -> Iterator[Counter[str]]:
    """The calls of `READERS` in the threads of the gateway, by module and name."""
    names: dict[CodeType, str] = {reader.__code__: name_of(reader) for reader in READERS}
    counts: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and (name := names.get(frame.f_code)) is not None:
            counts[name] += 1

    threading.setprofile(count)
    yield counts
    threading.setprofile(None)


def name_of(reader: Callable[..., Any]) -> str:
    return f"{reader.__module__}.{reader.__name__}"


def build_body(body: Json, calc: CountingServer) -> Json:
    mcp = {"type": "mcp", "server_label": "calc", "server_url": calc.url, "authorization": SECRET}
    server = {"type": "url", "name": "calc", "url": calc.url, "authorization_token": SECRET}
    placed = {"tools": {"mcp": [mcp]}, "mcp_servers": {"servers": [server]}}
    return {
        "model": "m",
        **{
            name: placed[name][value] if isinstance(value, str) and name in placed else value
            for name, value in body.items()
        },
    }


@pytest.mark.parametrize("refused", [False, True], ids=["answered", "refused upstream"])
@pytest.mark.parametrize(("path", "body", "asked"), REQUESTS.values(), ids=REQUESTS)
async def test_a_body_is_asked_once(
    calls: Counter[str],
    calc: CountingServer,
    path: str,
    body: Json,
    asked: tuple[Callable[..., Any], ...],
    *,
    refused: bool,
) -> None:
    error = {"error": {"message": f"no {SECRET}", "type": "invalid_request_error"}}
    async with ScriptedUpstream() as upstream:
        upstream.script(json_reply(error, status=400) if refused else sound(UPSTREAMS[body.get("model", "m")]))
        config: Json = {
            "egress": {"allow": ["127.0.0.1"]},
            "tools": {"mcp": {"request_servers": "public" if body.get("model", "m") == "m" else "off"}},
            "providers": {
                "m": {"type": "vllm", "base_url": upstream.url},
                "r": {"type": "openai", "base_url": upstream.url, "api_key": "k", "unlisted_models": "forward"},
                "a": {"type": "anthropic", "base_url": upstream.url, "api_key": "k", "unlisted_models": "forward"},
            },
            "models": {name: {"provider": name} for name in UPSTREAMS},
        }
        with serving(config) as gateway:
            async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
                reply = await client.post(f"{gateway.url}{path}", json=build_body(body, calc))
    assert (reply.status_code == 400) is refused, reply.text
    assert not {"mcp", "servers"} & set(map(str, body.values())) or SECRET not in reply.text
    assert calls == dict.fromkeys(map(name_of, asked), 1)
