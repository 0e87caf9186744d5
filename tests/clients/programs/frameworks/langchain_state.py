"""LangChain with state on the server: `langchain_state.py CASE`, with BASE_URL and MODEL in the environment."""

import json
import os
import sys
from functools import reduce
from operator import add as plus
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


MODEL = ChatOpenAI(
    model=os.environ["MODEL"],
    base_url=os.environ["BASE_URL"],
    api_key="none",
    max_retries=0,
    use_responses_api=True,
    use_previous_response_id=True,
)
HISTORY: list[Any] = []


def whole(model: Any) -> AIMessage:
    return model.invoke(HISTORY)


def streamed(model: Any) -> Any:
    return reduce(plus, model.stream(HISTORY))


def two_turns(ask: Any) -> Any:
    with_tools = MODEL.bind_tools([add])
    HISTORY.append(HumanMessage("I am Ada. Add 2 and 40."))
    HISTORY.append(ask(with_tools))
    (call,) = HISTORY[-1].tool_calls
    HISTORY.append(ToolMessage(str(add.invoke(call["args"])), tool_call_id=call["id"]))
    HISTORY.append(ask(with_tools))
    HISTORY.append(HumanMessage("Who am I?"))
    last = ask(MODEL)
    items = MODEL.root_client.responses.input_items.list(last.response_metadata["id"])
    return {"text": last.text, "new": len(list(items))}


print(json.dumps(two_turns({"whole": whole, "streamed": streamed}[sys.argv[1]])))
