"""The OpenAI Agents SDK with a tool that the server runs: `agents_approvals.py CASE`, with BASE_URL, MODEL and MCP_URL.

Each call has to be approved, by a function that the SDK calls.
"""

import asyncio
import json
import os
import sys
from typing import Any

from agents import Agent, HostedMCPTool, OpenAIResponsesModel, Runner
from openai import AsyncOpenAI

CLIENT = AsyncOpenAI(base_url=os.environ["BASE_URL"], api_key="none", max_retries=0)

requests: list[Any] = []
"""The calls that needed an approval."""


def agent(*, approve: bool = True) -> Agent:
    def decide(request: Any) -> Any:
        requests.append([request.data.name, request.data.arguments])
        return {"approve": approve, "reason": "It is fine." if approve else "Too risky."}

    config: Any = {"type": "mcp", "server_label": "calc", "server_url": os.environ["MCP_URL"]}
    tool = HostedMCPTool(tool_config=config | {"require_approval": "always"}, on_approval_request=decide)
    return Agent("Ada", tools=[tool], model=OpenAIResponsesModel(os.environ["MODEL"], CLIENT))


async def approved() -> Any:
    return (await Runner.run(agent(), "Add 2 and 40.")).final_output


async def approved_chained() -> Any:
    return (await Runner.run(agent(), "Add 2 and 40.", auto_previous_response_id=True)).final_output


async def approved_streamed() -> Any:
    run = Runner.run_streamed(agent(), "Add 2 and 40.")
    async for _ in run.stream_events():
        pass
    return run.final_output


async def denied() -> Any:
    return (await Runner.run(agent(approve=False), "Add 2 and 40.")).final_output


async def approved_twice() -> Any:
    """The second run sends the whole history of the first, with the approval in it."""
    first = await Runner.run(agent(), "Add 2 and 40.")
    again: Any = [*first.to_input_list(), {"role": "user", "content": "Once more."}]
    return (await Runner.run(agent(), again)).final_output


async def main() -> None:
    case = {run.__name__: run for run in (approved, approved_chained, approved_streamed, denied, approved_twice)}
    text = await case[sys.argv[1]]()
    print(json.dumps({"text": text, "requests": requests}))


asyncio.run(main())
