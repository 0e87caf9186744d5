"""Clients of the Messages API in Python: `messages_tools.py CASE`.

BASE_URL (without /v1), MODEL and PROMPT are in the environment.
"""

import json
import os
import sys
from typing import Any

from anthropic import Anthropic, beta_tool
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from pydantic import BaseModel

URL, MODEL, PROMPT = (os.environ[name] for name in ("BASE_URL", "MODEL", "PROMPT"))


def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


def anthropic() -> Any:
    client = Anthropic(base_url=URL, api_key="none", max_retries=0)
    input_items: list[Any] = [{"role": "user", "content": PROMPT}]
    runner = client.beta.messages.tool_runner(model=MODEL, max_tokens=500, messages=input_items, tools=[beta_tool(add)])
    return runner.until_done().content[0].text


def langchain() -> Any:
    function = tool(add)
    model = ChatAnthropic(model=MODEL, base_url=URL, api_key="none", max_retries=0).bind_tools([function])
    history: list[Any] = [HumanMessage(PROMPT)]
    history.append(model.invoke(history))
    history += [function.invoke(call) for call in history[-1].tool_calls]
    return model.invoke(history).text


def mixed() -> Any:
    """Streams one message with text and calls, and returns its blocks."""
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
    request: Any = {
        "model": MODEL,
        "max_tokens": 500,
        "messages": [{"role": "user", "content": PROMPT}],
        "tools": [{"name": "add", "input_schema": schema}],
    }
    with Anthropic(base_url=URL, api_key="none", max_retries=0).messages.stream(**request) as stream:
        return [block.model_dump(exclude_none=True) for block in stream.get_final_message().content]


class City(BaseModel):
    """A city, whose country a model may leave out."""

    name: str
    country: str | None = None


def parsed() -> Any:
    """Returns a reply that the SDK has parsed into an object with an optional field."""
    client = Anthropic(base_url=URL, api_key="none", max_retries=0)
    request: Any = {"model": MODEL, "max_tokens": 500, "messages": [{"role": "user", "content": PROMPT}]}
    city = client.messages.parse(**request, output_format=City).parsed_output
    return None if city is None else city.model_dump()


print(json.dumps({"text": globals()[sys.argv[1]]()}))
