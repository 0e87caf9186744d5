"""Names of tools that an upstream refuses are sent under other names, and clients get their own, between every two
APIs: in tools, choices, calls and history."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tests.serving import Gateway, serving
from tests.unit.translation.responses.relaying.test_calls import call_events, items_of
from tests.upstream import ScriptedUpstream
from tests.upstream.anthropic import anthropic_calls
from tests.upstream.builders import (
    SSE,
    chat_calls,
    data_frame,
    either,
    error_reply,
    json_reply,
    response_snapshot,
    responses_sse,
    text_events,
)
from tests.upstream.gemini import call as gemini_call
from tests.upstream.gemini import last as gemini_last
from tests.upstream.ollama import call as ollama_call
from tests.upstream.ollama import ollama_calls, ollama_shown
from tests.upstream.script import Exchange, Reply, Script

Json = dict[str, Any]

NAMES = [
    "plain_name-1",
    "mcp_srv_calendar.getEvents",
    "mcp_srv_calendar_getEvents",
    "server:tool",
    "a tool",
    "tool/with/slashes",
    "größe",
    "7days",
    "mcp__a_plugin_with_a_long_name__and_a_tool_with_a_longer_name_still_x",
    "mcp__a_plugin_with_a_long_name__and_a_tool_with_a_longer_name_still_y",
    "x" * 128,
    "x" * 129,
]
SCHEMA: Json = {"type": "object", "properties": {"a": {"type": "string"}}}
CHOSEN = "mcp_srv_calendar.getEvents"


def _responses_calls(names: Sequence[str]) -> Script:
    events = [
        {**event, "item": {**event["item"], "name": name}} if "item" in event else event
        for index, name in enumerate(names)
        for event in call_events(index, f"call_{index}", "{", "}")
    ]
    whole = response_snapshot("completed", items_of(events))
    ended = {"type": "response.completed", "response": whole}
    return either(responses_sse([*text_events()[:2], *events, ended]), json_reply(whole))


def _gemini_calls(names: Sequence[str]) -> Script:
    parts = gemini_last(*(gemini_call(name, {}) for name in names))
    return either(Reply(headers=SSE, body=[data_frame(parts)]), json_reply(parts))


def _function_names(body: Json) -> list[str]:
    return [tool["function"]["name"] for tool in body["tools"]]


Upstream = tuple[Json, str, Callable[[Json], list[str]], Callable[[Sequence[str]], Script]]

UPSTREAMS: dict[str, Upstream] = {
    "chat": (
        {"type": "openai", "dialects": ["chat"]},
        r"[a-zA-Z0-9_-]{1,64}",
        _function_names,
        lambda names: chat_calls(*((name, "{}") for name in names)),
    ),
    "responses": (
        {"type": "openai", "dialects": ["responses"]},
        r"[a-zA-Z0-9_-]{1,64}",
        lambda body: [tool["name"] for tool in body["tools"]],
        _responses_calls,
    ),
    "anthropic": (
        {"type": "anthropic"},
        r"[a-zA-Z0-9_-]{1,128}",
        lambda body: [tool["name"] for tool in body["tools"]],
        lambda names: anthropic_calls(*((f"toolu_{i}", name, {}) for i, name in enumerate(names))),
    ),
    "gemini": (
        {"type": "gemini"},
        r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}",
        lambda body: [function["name"] for function in body["tools"][0]["functionDeclarations"]],
        _gemini_calls,
    ),
    "ollama": (
        {"type": "ollama"},
        r".+",
        _function_names,
        lambda names: ollama_calls(*map(ollama_call, names)),
    ),
}

_CHAT_TOOLS = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in NAMES]
_USER: Json = {"role": "user", "content": "Go."}
_CHAT_CALL: Json = {"id": "c1", "type": "function", "function": {"name": CHOSEN, "arguments": "{}"}}

CLIENTS: dict[str, tuple[str, Json]] = {
    "chat": (
        "/v1/chat/completions",
        {
            "tools": _CHAT_TOOLS,
            "messages": [
                _USER,
                {"role": "assistant", "content": None, "tool_calls": [_CHAT_CALL]},
                {"role": "tool", "tool_call_id": "c1", "content": "ok"},
            ],
        },
    ),
    "responses": (
        "/v1/responses",
        {
            "store": False,
            "tools": [{"type": "function", "name": name, "parameters": SCHEMA} for name in NAMES],
            "input": [
                _USER,
                {"type": "function_call", "call_id": "c1", "name": CHOSEN, "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c1", "output": "ok"},
            ],
        },
    ),
    "messages": (
        "/v1/messages",
        {
            "max_tokens": 99,
            "tools": [{"name": name, "input_schema": SCHEMA} for name in NAMES],
            "messages": [
                _USER,
                {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": CHOSEN, "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "ok"}]},
            ],
        },
    ),
    "gemini": (
        "/v1beta/models/m",
        {
            "tools": [{"functionDeclarations": [{"name": name, "parameters": SCHEMA} for name in NAMES]}],
            "contents": [
                {"role": "user", "parts": [{"text": "Go."}]},
                {"role": "model", "parts": [{"functionCall": {"name": CHOSEN, "args": {}}}]},
                {"role": "user", "parts": [{"functionResponse": {"name": CHOSEN, "response": {}}}]},
            ],
        },
    ),
    "ollama": (
        "/api/chat",
        {
            "tools": _CHAT_TOOLS,
            "messages": [
                _USER,
                {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": CHOSEN, "arguments": {}}}]},
                {"role": "tool", "tool_name": CHOSEN, "content": "ok"},
            ],
        },
    ),
    "generate": (
        "/generate",
        {"tools": [{"name": name, "parameters": SCHEMA} for name in NAMES], "messages": [_USER]},
    ),
    "agui": (
        "/v1/agui",
        {
            "threadId": "t",
            "runId": "r",
            "state": {},
            "context": [],
            "forwardedProps": {"model": "m"},
            "tools": [{"name": name, "description": "a tool", "parameters": SCHEMA} for name in NAMES],
            "messages": [
                {**_USER, "id": "1"},
                {"id": "2", "role": "assistant", "toolCalls": [_CHAT_CALL]},
                {"id": "3", "role": "tool", "toolCallId": "c1", "content": "ok"},
            ],
        },
    ),
}

CHOICES: dict[str, Json] = {
    "chat": {"tool_choice": {"type": "function", "function": {"name": CHOSEN}}},
    "chat, allowed": {
        "tool_choice": {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": CHOSEN}}]},
        }
    },
    "responses": {"tool_choice": {"type": "function", "name": CHOSEN}},
    "responses, allowed": {
        "tool_choice": {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": CHOSEN}]}
    },
    "messages": {"tool_choice": {"type": "tool", "name": CHOSEN}},
    "gemini": {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [CHOSEN]}}},
}


def calling(upstream_name: str) -> Script:
    """Calls all tools of the request. Refuses those with a name that the upstream's vendor refuses."""
    _, form, read_names, make_calls = UPSTREAMS[upstream_name]

    async def play(exchange: Exchange) -> None:
        names = read_names(exchange.request.json)
        if bad := [name for name in names if not re.fullmatch(form, name)]:
            await error_reply(400, f"invalid tool name {bad[0]}")(exchange)
        elif len(set(names)) < len(names):
            await error_reply(400, "two tools have one name")(exchange)
        else:
            await make_calls(names)(exchange)

    return play


@contextmanager
def serving_upstream(upstream: ScriptedUpstream, upstream_name: str) -> Iterator[Gateway]:
    upstream.script(calling(upstream_name))
    upstream.on("/api/show", ollama_shown("completion", "tools"))
    provider = {**UPSTREAMS[upstream_name][0], "base_url": upstream.url, "retries": 0}
    if upstream_name == "ollama":
        provider["base_url"] = upstream.url.removesuffix("/v1")
    else:
        provider["api_key"] = "k"
    models = {"m": {"provider": "p", "model": "gemini-2.5-pro" if upstream_name == "gemini" else "x"}}
    with serving({"providers": {"p": provider}, "models": models}) as gateway:
        yield gateway


def request_of(client_name: str, *, stream: bool) -> tuple[str, Json]:
    path, body = CLIENTS[client_name]
    if client_name == "gemini":
        return path + (":streamGenerateContent?alt=sse" if stream else ":generateContent"), body
    return path, body if client_name == "agui" else {**body, "model": "m", "stream": stream}


def names_in(reply: str) -> set[str]:
    quoted = set(re.findall(r'"(?:name|toolCallName)": ?"([^"]+)"', reply))
    return {name for name in quoted if name in NAMES or re.search(r"_[0-9a-f]{16}$", name)}


@pytest.mark.parametrize("upstream_name", UPSTREAMS)
async def test_every_client_gets_its_own_names(upstream_name: str) -> None:
    async with ScriptedUpstream() as upstream:
        with serving_upstream(upstream, upstream_name) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                sent = set()
                for client_name in CLIENTS:
                    for stream in (True, False):
                        path, body = request_of(client_name, stream=stream)
                        reply = await client.post(path, json=body)
                        assert reply.status_code == 200, (client_name, reply.text)
                        assert names_in(reply.text) == set(NAMES), (client_name, stream, reply.text)
                        wire = UPSTREAMS[upstream_name][2](upstream.requests[-1].json)
                        sent.add(tuple(wire))
                        past = upstream.requests[-1].content.decode().count(f'"{wire[1]}"')
                        assert client_name == "generate" or past >= 2, (client_name, upstream.requests[-1].json)
    assert len(sent) == 1  # whatever the API and the turn, so that a prompt cache holds
    accepted = re.compile(UPSTREAMS[upstream_name][1]).fullmatch
    assert [name for name in NAMES if accepted(name)] == [name for name in next(iter(sent)) if name in NAMES]


@pytest.mark.parametrize("upstream_name", [name for name in UPSTREAMS if name != "ollama"])
async def test_a_choice_of_a_tool_has_its_new_name(upstream_name: str) -> None:
    async with ScriptedUpstream() as upstream:
        with serving_upstream(upstream, upstream_name) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                for choice_name, choice in CHOICES.items():
                    path, body = request_of(choice_name.partition(",")[0], stream=False)
                    reply = await client.post(path, json={**body, **choice})
                    assert reply.status_code == 200, (choice_name, reply.text)
                    assert CHOSEN in names_in(reply.text), choice_name
                    request = upstream.requests[-1].json
                    chosen = str(request.get("tool_choice") or request.get("toolConfig"))
                    alone = len(UPSTREAMS[upstream_name][2](request)) == 1  # where nothing else allows one tool only
                    assert alone or "calendar" in chosen, (choice_name, request)
                    assert upstream_name == "gemini" or CHOSEN not in upstream.requests[-1].content.decode()


async def test_relays_leave_names_to_servers_that_accept_all() -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_calls((CHOSEN, "{}")))
        provider = {"type": "vllm", "base_url": upstream.url}
        with serving({"providers": {"p": provider}, "models": {"m": {"provider": "p"}}}) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                path, body = request_of("chat", stream=False)
                reply = await client.post(path, json=body)
    assert reply.status_code == 200, reply.text
    assert upstream.requests[-1].json["tools"] == _CHAT_TOOLS


async def test_tools_of_namespaces_are_mapped_too() -> None:
    tools: list[Json] = [
        {"type": "namespace", "name": "calendar", "tools": [{"type": "function", "name": "get.events"}]},
        {"type": "custom", "name": "patch.apply"},
    ]
    call: Json = {"type": "function_call", "call_id": "c1", "name": "get.events", "arguments": "{}"}
    past: list[Json] = [
        {**call, "namespace": "calendar"},
        {"type": "function_call_output", "call_id": "c1", "output": "ok"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "patch.apply", "input": "x"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "ok"},
    ]
    async with ScriptedUpstream() as upstream:
        with serving_upstream(upstream, "responses") as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                body = {"model": "m", "store": False, "tools": tools, "input": [_USER, *past]}
                reply = await client.post("/v1/responses", json=body)
    assert reply.status_code == 200, reply.text
    first, second = reply.json()["output"]
    assert (first["namespace"], first["name"]) == ("calendar", "get.events")
    assert second["name"] == "patch.apply"
    sent = upstream.requests[-1].content.decode()
    assert '"get.events"' not in sent
    assert '"patch.apply"' not in sent


@pytest.mark.parametrize(
    ("upstream_name", "path", "counted"),
    [
        ("anthropic", "/v1/messages/count_tokens", {"input_tokens": 7}),
        ("responses", "/v1/responses/input_tokens", {"object": "response.input_tokens", "input_tokens": 7}),
    ],
)
async def test_the_tools_of_a_request_are_counted_by_their_new_names(
    upstream_name: str, path: str, counted: Json
) -> None:
    _, body = CLIENTS["messages" if upstream_name == "anthropic" else "responses"]
    body = {key: value for key, value in body.items() if key not in ("max_tokens", "store")}
    async with ScriptedUpstream() as upstream:
        with serving_upstream(upstream, upstream_name) as gateway:
            upstream.on(path.removeprefix("/v1"), json_reply(counted))
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                reply = await client.post(path, json={"model": "m", **body})
    assert reply.status_code == 200, reply.text
    assert reply.json()["input_tokens"] == 7
    sent = UPSTREAMS[upstream_name][2](upstream.requests[-1].json)
    assert len(sent) == len(NAMES)
    assert all(map(re.compile(UPSTREAMS[upstream_name][1]).fullmatch, sent))
