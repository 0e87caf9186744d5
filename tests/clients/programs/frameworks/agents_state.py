"""The OpenAI Agents SDK where the server remembers: `agents_state.py CASE`, with BASE_URL and MODEL in the environment.

Each case has two runs; in the first of them a tool may run.
"""

import asyncio
import json
import os
import sys
from typing import Any

from agents import (
    Agent,
    OpenAIConversationsSession,
    OpenAIResponsesCompactionSession,
    OpenAIResponsesModel,
    Runner,
    SQLiteSession,
    function_tool,
    responses_websocket_session,
)
from openai import AsyncOpenAI, BadRequestError

CLIENT = AsyncOpenAI(base_url=os.environ["BASE_URL"], api_key="none", max_retries=0)
FIRST, SECOND = "I am Ada. Add 2 and 40.", "Who am I?"

ran: list[Any] = []
"""The arguments of the calls that ran."""


@function_tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    ran.append([a, b])
    return str(a + b)


def agent() -> Agent:
    return Agent("Ada", tools=[add], model=OpenAIResponsesModel(os.environ["MODEL"], CLIENT))


async def describe_run(result: Any) -> Any:
    """Returns the answer, and as `new` the number of items in the last request."""
    new = [item.id async for item in CLIENT.responses.input_items.list(result.last_response_id)]
    return {"text": result.final_output, "ran": ran, "new": len(new)}


async def two_runs(**options: Any) -> Any:
    await Runner.run(agent(), FIRST, **options)
    return await describe_run(await Runner.run(agent(), SECOND, **options))


async def chained() -> Any:
    first = await Runner.run(agent(), FIRST, auto_previous_response_id=True)
    return await describe_run(await Runner.run(agent(), SECOND, previous_response_id=first.last_response_id))


async def chained_streamed() -> Any:
    previous = None
    for said in (FIRST, SECOND):
        result = Runner.run_streamed(agent(), said, auto_previous_response_id=True, previous_response_id=previous)
        async for _ in result.stream_events():
            pass
        previous = result.last_response_id
    return await describe_run(result)


async def conversation() -> Any:
    return await two_runs(conversation_id=(await CLIENT.conversations.create()).id)


async def session() -> Any:
    kept = OpenAIConversationsSession(openai_client=CLIENT)
    got = await two_runs(session=kept)
    items: Any = await kept.get_items()
    last: Any = await kept.pop_item()
    return {
        **got,
        "kept": [item.get("type", "message") for item in items],
        "popped": last["content"][0]["text"],
        "left": len(await kept.get_items()),
    }


async def compaction() -> Any:
    def is_long(context: Any) -> bool:
        return len(context["compaction_candidate_items"]) > 2

    kept = OpenAIResponsesCompactionSession(
        "one", SQLiteSession("one"), client=CLIENT, model=os.environ["MODEL"], should_trigger_compaction=is_long
    )
    await Runner.run(agent(), FIRST, session=kept)
    items: Any = await kept.get_items()
    got = await describe_run(await Runner.run(agent(), SECOND, session=kept))
    return {**got, "kept": [item.get("type", "message") for item in items]}


async def websocket() -> Any:
    async with responses_websocket_session(base_url=os.environ["BASE_URL"], api_key="none") as connected:
        speaker = Agent("Ada", tools=[add], model=os.environ["MODEL"])
        first = await connected.run(speaker, FIRST, auto_previous_response_id=True)
        return await describe_run(await connected.run(speaker, SECOND, previous_response_id=first.last_response_id))


async def unknown() -> Any:
    try:
        await Runner.run(agent(), FIRST, previous_response_id="resp_1")
    except BadRequestError as error:
        return {"code": error.code, "param": error.param}


print(json.dumps(asyncio.run(globals()[sys.argv[1]]())))
