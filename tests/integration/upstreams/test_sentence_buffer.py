"""`server.sentence_buffer`: streams of both APIs in whole sentences, from upstreams that would be relayed too."""

from typing import Any

import pytest
from openai import AsyncOpenAI

from tests.serving import serving
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import chat_text, responses_text

PIECES = ("Hel", "lo. It costs", " 3.5", "0.", " Ok", "?\n", "Bye")
SENTENCES = ["Hello. ", "It costs 3.50. ", "Ok?\n", "Bye"]


@pytest.mark.parametrize("dialect", ["chat", "responses"])
@pytest.mark.parametrize("buffered", [True, False], ids=["buffered", "as it comes"])
async def test_the_text_of_streams_arrives_in_sentences(dialect: str, buffered: bool) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.on("/chat/completions", chat_text(*PIECES))
        upstream.on("/responses", responses_text(*PIECES))
        config: dict[str, Any] = {
            "server": {"sentence_buffer": buffered},
            "providers": {"up": {"type": "openai_compatible", "base_url": upstream.url, "dialects": [dialect]}},
            "models": {"*": {"provider": "up"}},
        }
        with serving(config) as gateway:
            async with AsyncOpenAI(base_url=gateway.v1, api_key="none", max_retries=0) as client:
                stream = await client.responses.create(model="m", input="Hi", stream=True)
                texts = [event.delta async for event in stream if event.type == "response.output_text.delta"]
                messages: Any = [{"role": "user", "content": "Hi"}]
                chunks = await client.chat.completions.create(model="m", messages=messages, stream=True)
                contents = [chunk.choices[0].delta.content async for chunk in chunks if chunk.choices]
                whole = await client.chat.completions.create(model="m", messages=messages)
    assert [text for text in contents if text] == texts
    assert texts == SENTENCES if buffered else len(texts) > len(SENTENCES)
    assert whole.choices[0].message.content == "".join(PIECES)
