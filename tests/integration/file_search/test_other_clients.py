"""File searches that a model's configuration adds, for clients of Gemini's and Ollama's APIs."""

from pathlib import Path
from typing import Any, Final

import httpx
import orjson
import pytest

from tests.integration.file_search.file_gateway import ANSWER, search
from tests.integration.file_search.test_other_apis import BOB, LOSS, TEXT, shared
from tests.integration.mcp.tool_gateway import Hosting
from tests.upstream import chat_calls, chat_text
from tests.upstream.builders import Json

CONTENTS: Final[Any] = [{"role": "user", "parts": [{"text": "Hi"}]}]
MESSAGES: Final[Any] = [{"role": "user", "content": "Hi"}]


async def send(served: Hosting, path: str, body: Json) -> httpx.Response:
    headers = {"authorization": f"Bearer {BOB}"}
    async with httpx.AsyncClient(base_url=served.url.removesuffix("/v1"), headers=headers, timeout=60) as http:
        return await http.post(path, json=body)


async def ask_gemini(served: Hosting, *, streamed: bool) -> list[Json]:
    """Returns the replies, one for each event of a stream."""
    if not streamed:
        return [(await send(served, "/v1beta/models/m:generateContent", {"contents": CONTENTS})).json()]
    reply = await send(served, "/v1beta/models/m:streamGenerateContent?alt=sse", {"contents": CONTENTS})
    return [orjson.loads(line.removeprefix("data: ")) for line in reply.text.splitlines() if line.startswith("data: ")]


async def ask_ollama(served: Hosting, path: str, *, streamed: bool) -> list[Json]:
    """Returns the replies, one for each line of a stream."""
    prompt: Json = {"messages": MESSAGES} if path == "/api/chat" else {"prompt": "Hi"}
    reply = await send(served, path, {"model": "m", "stream": streamed, **prompt})
    return [orjson.loads(line) for line in reply.text.splitlines()]


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_client_of_gemini_gets_the_answer_and_the_loss_of_its_citations(tmp_path: Path, streamed: bool) -> None:
    async with shared(tmp_path) as (served, store_id):
        replies = await ask_gemini(served, streamed=streamed)
        offered = [tool["function"]["name"] for tool in served.model.requests[0].json["tools"]]
    parts = [part for reply in replies for each in reply["candidates"] for part in each["content"].get("parts", ())]
    assert "".join(part["text"] for part in parts) == TEXT
    assert [key for part in parts for key in part if key != "text"] == []
    end = replies[-1]["candidates"][0]
    assert end["finishReason"] == "STOP"
    assert end["finishMessage"] == "Losses of this reply: output.file_citation=not reported"
    assert offered == ["file_search"]
    assert store_id not in str(replies)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("path", ["/api/chat", "/api/generate"])
async def test_a_client_of_ollama_gets_the_answer_and_the_loss_of_its_citations(
    tmp_path: Path, path: str, streamed: bool
) -> None:
    async with shared(tmp_path) as (served, store_id):
        replies = await ask_ollama(served, path, streamed=streamed)
    texts = [reply["message"]["content"] if path == "/api/chat" else reply["response"] for reply in replies]
    assert "".join(texts) == TEXT
    assert not any(reply.get("message", {}).get("tool_calls") for reply in replies)
    assert (replies[-1]["done"], replies[-1]["done_reason"]) == (True, "stop")
    assert LOSS in str(replies[-1])
    assert store_id not in str(replies)


async def test_a_search_beside_a_function_of_the_client_leaves_it_to_the_client(tmp_path: Path) -> None:
    own = {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}
    scripts = (chat_calls(search("cats")), chat_calls(("add", '{"a": 1}')))
    async with shared(tmp_path, *scripts, *scripts) as (served, _):
        gemini_tools = [{"functionDeclarations": [own]}]
        body = {"contents": CONTENTS, "tools": gemini_tools}
        gemini = (await send(served, "/v1beta/models/m:generateContent", body)).json()
        tools = [{"type": "function", "function": own}]
        ollama = (
            await send(served, "/api/chat", {"model": "m", "messages": MESSAGES, "tools": tools, "stream": False})
        ).json()
    calls = [part["functionCall"] for part in gemini["candidates"][0]["content"]["parts"] if "functionCall" in part]
    assert [(call["name"], call["args"]) for call in calls] == [("add", {"a": 1})]
    (call,) = ollama["message"]["tool_calls"]
    assert (call["function"]["name"], call["function"]["arguments"]) == ("add", {"a": 1})


async def test_a_function_of_the_client_keeps_its_name(tmp_path: Path) -> None:
    own = {"name": "file_search", "parameters": {"type": "object"}}
    async with shared(tmp_path, chat_text(*ANSWER)) as (served, _):
        tools = [{"functionDeclarations": [own]}]
        await send(served, "/v1beta/models/m:generateContent", {"contents": CONTENTS, "tools": tools})
        offered = [tool["function"]["name"] for tool in served.model.requests[0].json["tools"]]
    assert offered[0] == "file_search"
    assert len({*offered}) == 2
