"""pydantic-ai with state on the server: `pydantic_ai_state.py CASE`, with BASE_URL and MODEL in the environment.

Each case has two runs; in the first of them a tool may run.
"""

import asyncio
import json
import os
import sys
from typing import Any

from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings
from pydantic_ai.providers.openai import OpenAIProvider

CLIENT = AsyncOpenAI(base_url=os.environ["BASE_URL"], api_key="none", max_retries=0)
MODEL = OpenAIResponsesModel(os.environ["MODEL"], provider=OpenAIProvider(openai_client=CLIENT))
FIRST, SECOND = "I am Ada. Add 2 and 40.", "Who am I?"


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def describe_run(text: str, messages: list[ModelMessage]) -> Any:
    """Returns the answer, and as `new` the number of items in the last request."""
    *_, last = [message for message in messages if isinstance(message, ModelResponse)]
    new = [item.id async for item in CLIENT.responses.input_items.list(last.provider_response_id or "")]
    return {"text": text, "new": len(new)}


async def two_runs(settings: OpenAIResponsesModelSettings) -> Any:
    agent = Agent(MODEL, tools=[add], model_settings=settings)
    first = await agent.run(FIRST)
    second = await agent.run(SECOND, message_history=first.all_messages())
    return await describe_run(second.output, second.all_messages())


async def chained() -> Any:
    return await two_runs({"openai_previous_response_id": "auto"})


async def chained_streamed() -> Any:
    agent = Agent(MODEL, tools=[add], model_settings={"openai_previous_response_id": "auto"})
    history = None
    for said in (FIRST, SECOND):
        async with agent.run_stream(said, message_history=history) as result:
            text = await result.get_output()
        history = result.all_messages()
    return await describe_run(text, history)


async def conversation() -> Any:
    return await two_runs({"openai_conversation_id": (await CLIENT.conversations.create()).id})


async def background() -> Any:
    return await two_runs({"openai_previous_response_id": "auto", "openai_background": True})


print(json.dumps(asyncio.run(globals()[sys.argv[1]]())))
