"""Searches of the Agents SDK: `agents_searches.py CASE`, with BASE_URL, MODEL and STORE_ID in the environment."""

import asyncio
import json
import os
import sys
from typing import Any

from agents import Agent, FileSearchTool, OpenAIResponsesModel, Runner, WebSearchTool
from openai import AsyncOpenAI

MODEL = OpenAIResponsesModel(
    os.environ["MODEL"], AsyncOpenAI(base_url=os.environ["BASE_URL"], api_key="none", max_retries=0)
)
TOOLS: dict[str, Any] = {
    "files": lambda: FileSearchTool(vector_store_ids=[os.environ["STORE_ID"]], include_search_results=True),
    "web": lambda: WebSearchTool(search_context_size="low"),
}


def describe(result: Any) -> dict[str, Any]:
    raw = [item.raw_item for item in result.new_items]
    messages = [each for each in raw if each.type == "message"]
    return {
        "text": result.final_output,
        "items": [each.type for each in raw],
        "annotations": [note.model_dump() for each in messages for part in each.content for note in part.annotations],
        "results": [found.text for each in raw for found in getattr(each, "results", None) or ()],
    }


async def main() -> None:
    kind, _, streamed = sys.argv[1].partition("_")
    agent = Agent(name="ada", instructions="Be brief.", model=MODEL, tools=[TOOLS[kind]()])
    if streamed:
        result = Runner.run_streamed(agent, "Does it rain?")
        deltas = [
            event.data.delta
            async for event in result.stream_events()
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
        ]
        print(json.dumps({**describe(result), "deltas": deltas}))
        return
    print(json.dumps(describe(await Runner.run(agent, "Does it rain?"))))


asyncio.run(main())
