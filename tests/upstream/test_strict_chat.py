"""The strict chat upstream behind the client tests refuses what strict upstreams refuse, and nothing else."""

import asyncio
import json
from typing import Any

import pytest

from tests.upstream import Request
from tests.upstream.strict_chat import find_mistake

Json = dict[str, Any]

ASKED = {"role": "user", "content": "Hello"}
CALL = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
CALLED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "42"}
ADD: Json = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}
OPTIONAL: Json = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}


def find(**body: Any) -> str | None:
    async def mistake_in_request() -> str | None:
        closed: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        content = json.dumps({"model": "m", "messages": [ASKED], **body}).encode()
        return find_mistake(Request("POST", "/v1/chat/completions", {}, content, 0.0, closed))

    return asyncio.run(mistake_in_request())


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"stream": True, "stream_options": {"include_usage": True}},
        {"tools": [ADD], "tool_choice": "auto", "parallel_tool_calls": True},
        {"messages": [ASKED, CALLED, RESULT]},
        {"messages": [ASKED, {"role": "assistant", "content": "Hi", "reasoning_content": "hm"}, ASKED]},
    ],
    ids=["a question", "a stream", "tools", "a call and its result", "past reasoning"],
)
def test_valid_requests_pass(body: Json) -> None:
    assert find(**body) is None


@pytest.mark.parametrize(
    "body",
    [
        {"truncation": "auto"},
        {"messages": [{**ASKED, "id": "msg_1"}]},
        {"messages": [{"role": "user", "content": [{"type": "input_text", "text": "Hello"}]}]},
        {"messages": [ASKED, CALLED, {**RESULT, "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]},
        {"stream_options": {"include_usage": True}},
        {"tools": []},
        {"tool_choice": "auto"},
        {"tools": [{"type": "function", "name": "add"}]},
        {"tools": [{"type": "function", "function": {"name": "sums.add"}}]},
        {"tools": [{"type": "function", "function": {**ADD["function"], "strict": True}}]},
        {"tools": [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "strict": True, "schema": OPTIONAL}}},
        {"messages": [ASKED, RESULT]},
        {"messages": [ASKED, CALLED]},
        {"messages": [ASKED, CALLED, ASKED, RESULT]},
    ],
    ids=[
        "a parameter of Responses",
        "an unknown key in a message",
        "a content part of Responses",
        "an image in a tool message",
        "stream options without a stream",
        "an empty list of tools",
        "a tool choice without tools",
        "a flat tool",
        "a name that is no name",
        "strict on a schema that is not",
        "an object without properties",
        "a strict form of the answer with an optional key",
        "a result without a call",
        "a call without a result",
        "a late result",
    ],
)
def test_requests_that_strict_upstreams_refuse_are_reported(body: Json) -> None:
    assert find(**body)
