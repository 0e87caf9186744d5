"""Arguments that are no object, from APIs with argument values: they are preserved, marked and sent back unchanged."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.test_tool_loops import ASK, TOOLS, calls_in, gateway, output
from tests.upstream import Script, anthropic, gemini, json_reply, ollama

Json = dict[str, Any]


def anthropic_reply(given: Any) -> Script:
    return json_reply(anthropic.message({**anthropic.call_block("add"), "input": given}, stop_reason="tool_use"))


def gemini_reply(given: Any) -> Script:
    return json_reply(gemini.last({"functionCall": {"name": "add", "args": given}}))


def ollama_reply(given: Any) -> Script:
    return json_reply(ollama.last(tool_calls=[{"function": {"name": "add", "arguments": given}}]))


def anthropic_input(body: Json) -> Any:
    return body["messages"][1]["content"][0]["input"]


def gemini_input(body: Json) -> Any:
    return body["contents"][1]["parts"][0]["functionCall"]["args"]


def ollama_input(body: Json) -> Any:
    return body["messages"][1]["tool_calls"][0]["function"]["arguments"]


APIS: dict[str, tuple[Callable[[Any], Script], Callable[[Json], Any]]] = {
    "anthropic": (anthropic_reply, anthropic_input),
    "gemini": (gemini_reply, gemini_input),
    "ollama": (ollama_reply, ollama_input),
}

NOT_JSON, NO_OBJECT = "the arguments are not valid JSON", "the arguments are not an object"

ODD: dict[str, tuple[Any, str, str]] = {
    "an empty list": ([], "[]", NO_OBJECT),
    "half an object": ('{"a":', '{"a":', NOT_JSON),
}
"""Arguments of the upstream -> arguments for the client, and the reason of the mark."""


@pytest.mark.parametrize(("given", "text", "why"), ODD.values(), ids=list(ODD))
@pytest.mark.parametrize("kind", list(APIS))
async def test_arguments_that_are_no_object_are_preserved_marked_and_sent_back(
    kind: str, given: Any, text: str, why: str, tmp_path: Path
) -> None:
    says, told = APIS[kind]
    async with gateway(kind, tmp_path) as (upstream, client):
        upstream.script(says(given), says({}))
        body = {"model": "m", "tools": TOOLS}
        response = (await client.post("/responses", json={**body, "input": ASK})).json()
        [(call_id, arguments)] = calls_in(response)
        assert arguments == text
        assert response["tool_warnings"] == [{"name": "add", "why": why}]
        again = {**body, "input": [*ASK, *response["output"], output(call_id)]}
        reply = await client.post("/responses", json=again)
        assert calls_in(reply.json())[0][1] == "{}"
        assert told(upstream.requests[-1].json) == {"raw_arguments": text}
    assert "arguments=wrapped" in reply.headers["x-gateway-loss"]


@pytest.mark.parametrize("kind", list(APIS))
async def test_missing_arguments_become_an_empty_object_without_a_mark(kind: str, tmp_path: Path) -> None:
    says, _ = APIS[kind]
    async with gateway(kind, tmp_path) as (upstream, client):
        upstream.script(says({}))
        response = (await client.post("/responses", json={"model": "m", "input": ASK, "tools": TOOLS})).json()
    assert calls_in(response)[0][1] == "{}"
    assert "tool_warnings" not in response
