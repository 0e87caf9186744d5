"""pydantic-ai: `pydantic_ai_agent.py CASE`, with BASE_URL, MODEL and API in the environment.

API is `responses`, `chat` or `messages`, PROMPT is what it is asked.
"""

import asyncio
import json
import os
import sys
from typing import Any

from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, ModelHTTPError, NativeOutput
from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, ThinkingPart, ThinkingPartDelta
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

DOT = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89"
    b"\x00\x00\x00\rIDATx\xdacd\xf8\xcfP\x0f\x00\x03\x86\x01\x80Z4}k\x00\x00\x00\x00IEND\xaeB`\x82"
)
URL = os.environ["BASE_URL"]


def build_model(api: str, name: str) -> Model:
    if api == "messages":
        anthropic = AnthropicProvider(base_url=URL.removesuffix("/v1"), api_key="none")
        return AnthropicModel(name, provider=anthropic, profile=ModelProfile(supports_json_schema_output=True))
    provider = OpenAIProvider(base_url=URL, api_key="none")
    return (OpenAIChatModel if api == "chat" else OpenAIResponsesModel)(name, provider=provider)


MODEL = build_model(os.environ["API"], os.environ["MODEL"])

THINKING: Any = {"anthropic_thinking": {"type": "enabled", "budget_tokens": 1024}}
"""Only clients of the Messages API that ask for thinking get it."""

PROMPT = os.environ.get("PROMPT", "Use add, sums__add, shell, apply_patch and look.")

ran: list[Any] = []
"""The arguments of the tools that ran."""


class Total(BaseModel):
    total: int


def add(a: int, b: int) -> int:
    """Add two numbers."""
    ran.append([a, b])
    return a + b


async def whole(agent: Agent[None, Any], content: Any = PROMPT, history: Any = None) -> Any:
    result = await agent.run(content, message_history=history)
    output = result.output.model_dump() if isinstance(result.output, BaseModel) else result.output
    parts = [part for message in result.all_messages() for part in message.parts]
    return {
        "output": output,
        "ran": ran,
        "usage": [result.usage.input_tokens, result.usage.output_tokens],
        "thinking": [part.content for part in parts if isinstance(part, ThinkingPart)],
    }


async def streamed(agent: Agent[None, Any]) -> Any:
    async with agent.run_stream(PROMPT) as result:
        deltas = [delta async for delta in result.stream_text(delta=True, debounce_by=None)]
        return {"output": await result.get_output(), "ran": ran, "deltas": deltas}


async def thinking_streamed(agent: Agent[None, Any]) -> Any:
    """The thoughts as the deltas of the stream have them."""
    thoughts: list[str] = []
    async with agent.run_stream_events(PROMPT) as events:
        async for event in events:
            if isinstance(event, PartStartEvent) and isinstance(event.part, ThinkingPart):
                thoughts.append(event.part.content)
            elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, ThinkingPartDelta):
                thoughts.append(event.delta.content_delta or "")
    return {"thinking": ["".join(thoughts)]}


async def conversation() -> Any:
    first = await Agent(MODEL, tools=[add]).run("I am Ada.")
    return await whole(Agent(MODEL), "Who am I?", first.all_messages())


async def failure() -> Any:
    try:
        return await whole(Agent(MODEL))
    except ModelHTTPError as error:
        return {"status": error.status_code, "body": error.body}


CASES = {
    "text": lambda: whole(Agent(MODEL, instructions="Be brief.")),
    "text_streamed": lambda: streamed(Agent(MODEL)),
    "tools": lambda: whole(Agent(MODEL, tools=[add], model_settings=THINKING)),
    "tools_streamed": lambda: streamed(Agent(MODEL, tools=[add])),
    "format_by_tool": lambda: whole(Agent(MODEL, output_type=Total)),
    "format": lambda: whole(Agent(MODEL, output_type=NativeOutput(Total))),
    "image": lambda: whole(Agent(MODEL), ["What is it?", BinaryContent(DOT, media_type="image/png")]),
    "summary": lambda: whole(Agent(MODEL, model_settings={"openai_reasoning_summary": "auto"})),
    "summary_streamed": lambda: thinking_streamed(Agent(MODEL, model_settings={"openai_reasoning_summary": "auto"})),
    "conversation": conversation,
    "failure": failure,
}

print(json.dumps(asyncio.run(CASES[sys.argv[1]]())))
