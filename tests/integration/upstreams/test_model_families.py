"""A model recognized by its name, behind servers whose flags decide whether they separate thinking."""

from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI
from openai.types.responses import Response

from tests.serving import serving
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import chat_text

RAW = "<think>\nOne and one.\n</think>\n\nTwo <think>."


@pytest.mark.parametrize("kind", ["vllm", "openai_compatible"])
@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "stream"])
async def test_thinking_that_a_server_left_in_its_text_is_reasoning(kind: str, streaming: bool) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.on("/chat/completions", chat_text(RAW[:9], RAW[9:30], RAW[30:]))
        config: dict[str, Any] = {
            "providers": {"up": {"type": kind, "base_url": upstream.url}},
            "models": {"*": {"provider": "up"}},
        }
        with serving(config) as gateway:
            async with AsyncOpenAI(base_url=gateway.v1, api_key="none", max_retries=0) as client:
                known = await _ask(client, streaming=streaming)
                other = await client.responses.create(model="other", input="1 + 1?")
            async with httpx.AsyncClient(timeout=60) as plain:
                body = {"model": "qwen3:8b", "messages": [{"role": "user", "content": "1 + 1?"}], "n": 1}
                relayed = (await plain.post(f"{gateway.v1}/chat/completions", json=body)).json()
    assert [item.type for item in known.output] == ["reasoning", "message"]
    assert known.output[0].content[0].text == "One and one."  # type: ignore[union-attr, index]
    assert known.output_text == "Two <think>."
    assert other.output_text == RAW
    message = relayed["choices"][0]["message"]
    assert (message["content"], message["reasoning_content"]) == ("Two <think>.", "One and one.")


async def _ask(client: AsyncOpenAI, *, streaming: bool) -> Response:
    if not streaming:
        return await client.responses.create(model="Qwen/Qwen3-8B", input="1 + 1?")
    async with client.responses.stream(model="Qwen/Qwen3-8B", input="1 + 1?") as stream:
        return await stream.get_final_response()
