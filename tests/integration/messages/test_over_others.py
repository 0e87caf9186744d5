"""Clients of the Messages API over Ollama's and Gemini's APIs: thinking, calls at once and the results of both."""

from typing import Any

import httpx
import pytest

from tests.serving import serving
from tests.unit.support.stream_checks.messages_order import check_message, check_message_stream
from tests.upstream import Script, ScriptedUpstream, anthropic, gemini, ollama
from tests.upstream.builders import chat_text, data_frame, either, json_reply, sse_reply

Json = dict[str, Any]
HELLO: Json = {"role": "user", "content": "1 + 1, and 2 + 2?"}
TOOL: Json = {"name": "add", "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}
GEMINI_PATHS = [f"/models/gemini-2.5-flash:{verb}" for verb in ("streamGenerateContent", "generateContent")]


def gemini_reply(*parts: Json) -> Script:
    whole = gemini.last(*parts)
    return either(
        sse_reply(*(data_frame(each) for each in [*map(gemini.chunk, parts), gemini.last()])), json_reply(whole)
    )


UPSTREAMS: dict[str, tuple[Json, list[str], Script, Script]] = {
    "ollama": (
        {"type": "ollama"},
        ["/api/chat"],
        ollama.ollama_calls(ollama.call("add", a=1), ollama.call("add", a=2), thinking="Hm."),
        ollama.ollama_text("2 ", "and 4."),
    ),
    "gemini": (
        {"type": "gemini"},
        GEMINI_PATHS,
        gemini_reply(gemini.thought("Hm."), gemini.call("add", {"a": 1}), gemini.call("add", {"a": 2})),
        gemini_reply(gemini.text("2 "), gemini.text("and 4.")),
    ),
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("provider", "paths", "calls", "answer"), UPSTREAMS.values(), ids=UPSTREAMS)
async def test_calls_at_once_are_blocks_and_their_results_are_answered(
    provider: Json, paths: list[str], calls: Script, answer: Script, *, stream: bool
) -> None:
    async def ask(client: httpx.AsyncClient, *messages: Json) -> Json:
        body = {"model": "m", "max_tokens": 500, "messages": messages, "tools": [TOOL], "stream": stream}
        reply = await client.post("/messages", json={**body, "thinking": {"type": "adaptive"}})
        assert reply.status_code == 200, reply.text
        if stream:
            return check_message_stream(reply.content)
        check_message(reply.json())
        whole: Json = reply.json()
        return whole

    async with ScriptedUpstream() as upstream:
        upstream.on("/api/show", ollama.ollama_shown("completion", "tools", "thinking"))
        for path in paths:
            upstream.on(path, calls, answer)
        config = {
            "providers": {"p": {**provider, "base_url": upstream.url, "api_key": "key-1-of-gateway"}},
            "models": {"m": {"provider": "p", "model": "gemini-2.5-flash"}},
        }
        with serving(config) as served:
            async with httpx.AsyncClient(base_url=served.v1, trust_env=False, timeout=60) as client:
                first = await ask(client, HELLO)
                uses = [block for block in first["content"] if block["type"] == "tool_use"]
                results = [{"type": "tool_result", "tool_use_id": use["id"], "content": "4"} for use in uses]
                said = {"role": "assistant", "content": first["content"]}
                second = await ask(client, HELLO, said, {"role": "user", "content": results})
    assert [block["type"] for block in first["content"]] == ["thinking", "tool_use", "tool_use"]
    assert [use["input"] for use in uses] == [{"a": 1}, {"a": 2}]
    assert (first["stop_reason"], second["stop_reason"]) == ("tool_use", "end_turn")
    assert "".join(block["text"] for block in second["content"]) == "2 and 4."
    assert second["usage"]["output_tokens"] == 3


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_signatures_of_hidden_thinking_are_no_loss_for_another_model(*, stream: bool) -> None:
    calls = gemini_reply(gemini.thought("Hm."), gemini.call("add", {"a": 1}, "signature-1"))
    async with ScriptedUpstream() as upstream:
        for path in GEMINI_PATHS:
            upstream.on(path, calls, gemini_reply(gemini.text("2.")))
        upstream.on("/messages", anthropic.anthropic_text("2."))
        upstream.on("/chat/completions", chat_text("2."))
        kinds = {"gemini": "gemini", "relayed": "anthropic", "translated": "anthropic", "chat": "openai_compatible"}
        providers: Json = {
            name: {"type": kind, "base_url": upstream.url, "api_key": "key-1-of-gateway"}
            for name, kind in kinds.items()
        }
        providers["translated"]["dialects"] = []
        names = {"gemini": "gemini-2.5-flash", "chat": "m"}
        models = {name: {"provider": name, "model": names.get(name, "claude-opus-4-6")} for name in kinds}
        with serving({"providers": providers, "models": models}) as served:
            async with httpx.AsyncClient(base_url=served.v1, trust_env=False, timeout=60) as client:
                asked: Json = {"max_tokens": 500, "tools": [TOOL]}
                body = {**asked, "model": "gemini", "messages": [HELLO], "stream": stream}
                reply = await client.post("/messages", json=body)
                content = (check_message_stream(reply.content) if stream else reply.json())["content"]
                use = content[-1]
                results = [{"type": "tool_result", "tool_use_id": use["id"], "content": "2"}]
                history = [HELLO, {"role": "assistant", "content": content}, {"role": "user", "content": results}]
                for model in models:
                    body = {**asked, "model": model, "messages": history}
                    later = await client.post("/messages", json=body, headers={"x-gateway-strict": "true"})
                    assert (later.status_code, later.headers.get("x-gateway-loss")) == (200, None), later.text
    assert [block["type"] for block in content] == ["redacted_thinking", "tool_use"]
    same, relayed, translated, _ = (request.json for request in upstream.requests[1:])
    (part,) = same["contents"][1]["parts"]
    assert (part["functionCall"]["args"], part["thoughtSignature"]) == ({"a": 1}, "signature-1")
    for sent in (relayed, translated):
        assert [block["type"] for block in sent["messages"][1]["content"]] == ["tool_use"]
