"""ChatVllm before a model of two passes; `pytest` of the clients' environment runs it.

BASE_URL says where the gateway is; its model `tiny` thinks, and calls tools in the text of its answers.
"""

import os
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, ToolMessage

from responses_gateway_clients.langchain import ChatVllm

QUESTION = "Use add for 2 and 40."
BUDGET = 7

each_api = pytest.mark.parametrize("api", ["generate", "responses"])


def model(api: str, **fields: Any) -> ChatVllm:
    base_url = os.environ["BASE_URL"]
    given = {"max_thinking_tokens": BUDGET, "temperature": 0, "max_retries": 0, "split_thinking": True, **fields}
    return ChatVllm(api=api, model="tiny", base_url=base_url, **given)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@each_api
@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
async def test_the_budget_holds_to_the_token(api: str, streaming: bool) -> None:
    for message in (model(api).invoke(QUESTION, stream=streaming), await model(api).ainvoke(QUESTION)):
        assert message.usage_metadata["output_token_details"] == {"reasoning": BUDGET}
        assert message.additional_kwargs["thinking"]
        assert message.content
        assert "think>" not in message.content


@each_api
@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
async def test_a_tool_is_called_after_the_thinking_and_its_result_used(api: str, streaming: bool) -> None:
    asked = model(api, max_thinking_tokens=200).bind_tools([add])
    question = HumanMessage(QUESTION)
    first = await asked.ainvoke([question], stream=streaming)
    (call,) = first.tool_calls
    assert (call["name"], call["args"]) == ("add", {"a": 2, "b": 40})
    second = await asked.ainvoke([question, first, ToolMessage("42", tool_call_id=call["id"])], stream=streaming)
    assert "42" in second.content


def test_a_request_may_turn_the_passes_off() -> None:
    message = model("generate", two_pass=False, max_thinking_tokens=None, max_response_tokens=12).invoke(QUESTION)
    assert message.response_metadata["finish_reason"] == "length"
    assert message.usage_metadata["output_tokens"] == 12
