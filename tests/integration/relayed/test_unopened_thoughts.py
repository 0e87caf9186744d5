"""Whole relayed replies whose opening think tag is in the prompt: the text before the closing tag is reasoning."""

from typing import Any

import httpx
import pytest

from tests.serving import serving
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import chat_json

Json = dict[str, Any]

CASES: dict[str, tuple[str, Json, str | None, str]] = {
    "a closing tag alone": ("Hm.\n</think>\n\nYes.", {}, "Hm.", "Yes."),
    "both tags": ("<think>Hm.</think>Yes.", {}, "Hm.", "Yes."),
    "no tag": ("Yes.", {}, None, "Yes."),
    "an answer about tags": ("Write <think> and </think>.", {}, None, "Write <think> and </think>."),
    "a template without the tag": ("a</think>b", {"think_open": False}, None, "a</think>b"),
    "text as it is": ("a</think>b", {"parsing_format": "direct_response"}, None, "a</think>b"),
}


@pytest.mark.parametrize("case", CASES)
async def test_the_thought_is_separated(case: str) -> None:
    text, model, thought, answer = CASES[case]
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_json(text))
        provider = {"type": "openai_compatible", "base_url": upstream.url}
        models = {"m": {"provider": "p", "model": "qwq-32b", **model}}
        with serving({"providers": {"p": provider}, "models": models}) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
                reply = await client.post("/v1/chat/completions", json=body)
    message = reply.json()["choices"][0]["message"]
    assert (message.get("reasoning_content"), message["content"]) == (thought, answer)
