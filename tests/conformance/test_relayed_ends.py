"""The official SDK reads the whole response from a relayed stream, whatever output its last event has."""

from typing import Any

from openai import AsyncOpenAI

from tests.serving import serving
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import response_snapshot, responses_sse, text_events


async def test_the_final_response_has_the_streamed_text() -> None:
    *events, end = text_events("Hel", "lo")
    async with ScriptedUpstream() as upstream:
        provider = {"type": "openai_compatible", "base_url": upstream.url, "dialects": ["responses"]}
        with serving({"providers": {"p": provider}, "models": {"m": {"provider": "p"}}}) as gateway:
            async with AsyncOpenAI(base_url=gateway.v1, api_key="none", max_retries=0) as client:
                outputs: list[list[Any]] = [[], end["response"]["output"]]
                for output in outputs:
                    last = {"type": "response.completed", "response": response_snapshot("completed", output)}
                    upstream.script(responses_sse([*events, last]))
                    for is_stored in (True, False):
                        async with client.responses.stream(model="m", input="Hi", store=is_stored) as stream:
                            final = await stream.get_final_response()
                        assert final.output_text == "Hello", (output, is_stored)
