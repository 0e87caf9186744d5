"""The OpenAI Agents SDK: `agents_sdk.py CASE`, with BASE_URL, MODEL and API (responses or chat) in the environment.

PROMPT there is what it is asked.
"""

import asyncio
import json
import os
import sys
from typing import Any

from agents import (
    Agent,
    ApplyPatchOperation,
    ApplyPatchTool,
    CustomTool,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    ShellCallOutcome,
    ShellCommandOutput,
    ShellCommandRequest,
    ShellResult,
    ShellTool,
    ToolOutputImage,
    WebSearchTool,
    function_tool,
    tool_namespace,
)
from openai import AsyncOpenAI
from pydantic import BaseModel

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
KINDS = {"responses": OpenAIResponsesModel, "chat": OpenAIChatCompletionsModel}
MODEL = KINDS[os.environ["API"]](
    os.environ["MODEL"], AsyncOpenAI(base_url=os.environ["BASE_URL"], api_key="none", max_retries=0)
)

PROMPT = os.environ.get("PROMPT", "Use add, sums__add, shell, apply_patch and look.")

ran: list[Any] = []
"""The arguments of the tools that ran."""


class Total(BaseModel):
    total: int


class Editor:
    def create_file(self, operation: ApplyPatchOperation) -> str:
        ran.append([operation.type, operation.path, operation.diff])
        return "created"

    update_file = delete_file = create_file


@function_tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    ran.append([a, b])
    return str(a + b)


@function_tool
def look() -> ToolOutputImage:
    """Look at the picture."""
    return ToolOutputImage(image_url=f"data:image/png;base64,{DOT}")


def run_shell(request: ShellCommandRequest) -> ShellResult:
    commands = request.data.action.commands
    ran.append(commands)
    outcome = ShellCallOutcome(type="exit", exit_code=0)
    return ShellResult([ShellCommandOutput(stdout=f"did {command}", outcome=outcome) for command in commands])


def take_note(_context: Any, text: str) -> str:
    ran.append(text)
    return "noted"


def agent(**options: Any) -> Agent:
    return Agent("Ada", model=MODEL, **options)


async def whole(given: Agent, content: Any = PROMPT) -> Any:
    result = await Runner.run(given, content)
    usage = result.context_wrapper.usage
    return {
        "text": str(result.final_output),
        "agent": result.last_agent.name,
        "ran": ran,
        "usage": [usage.input_tokens, usage.output_tokens],
    }


async def streamed(given: Agent) -> Any:
    result = Runner.run_streamed(given, PROMPT)
    events = [event async for event in result.stream_events()]
    raw = [event.data for event in events if event.type == "raw_response_event"]
    return {
        "text": str(result.final_output),
        "agent": result.last_agent.name,
        "ran": ran,
        "deltas": [event.delta for event in raw if event.type == "response.output_text.delta"],
        "items": [event.name for event in events if event.type == "run_item_stream_event"],
    }


async def summarized(given: Agent) -> Any:
    """The thoughts as the deltas of the stream and the items of the result have them."""
    result = Runner.run_streamed(given, PROMPT)
    events = [event async for event in result.stream_events()]
    raw = [event.data for event in events if event.type == "raw_response_event"]
    return {
        "deltas": "".join(event.delta for event in raw if event.type == "response.reasoning_summary_text.delta"),
        "items": [
            part.text for item in result.new_items if item.type == "reasoning_item" for part in item.raw_item.summary
        ],
    }


async def conversation() -> Any:
    first = await Runner.run(agent(tools=[add]), "I am Ada. Use add.")
    return await whole(agent(), [*first.to_input_list(), {"role": "user", "content": "Who am I?"}])


def handing_off() -> Agent:
    return agent(handoffs=[Agent("grace", model=MODEL)])


CASES = {
    "text": lambda: whole(agent(instructions="Be brief.")),
    "text_streamed": lambda: streamed(agent()),
    "reasoning": lambda: whole(agent(tools=[add], model_settings=ModelSettings(reasoning={"effort": "low"}))),
    "summary": lambda: summarized(agent(model_settings=ModelSettings(reasoning={"summary": "auto"}))),
    "tools": lambda: whole(agent(tools=[add])),
    "tools_streamed": lambda: streamed(agent(tools=[add])),
    "handoff": lambda: whole(handing_off()),
    "handoff_streamed": lambda: streamed(handing_off()),
    "format": lambda: whole(agent(output_type=Total)),
    "conversation": conversation,
    "web_search": lambda: whole(agent(tools=[WebSearchTool(), add])),
    "shell": lambda: whole(agent(tools=[ShellTool(run_shell)])),
    "patch": lambda: whole(agent(tools=[ApplyPatchTool(Editor())])),
    "freeform": lambda: whole(agent(tools=[CustomTool("note", "Take a note.", take_note)])),
    "namespace": lambda: whole(agent(tools=tool_namespace(name="sums", description="Sums.", tools=[add]))),
    "image": lambda: whole(agent(tools=[look])),
}

print(json.dumps(asyncio.run(CASES[sys.argv[1]]())))
