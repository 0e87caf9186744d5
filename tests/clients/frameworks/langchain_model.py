"""A chat model for LangChain's standard tests: it fills every property that they declare with a fixed value."""

import json
from typing import Any

from tests.upstream import Exchange, Script, chat_calls, chat_text

Json = dict[str, Any]

_VALUES = {
    "a": 2,
    "b": 3,
    "input": 3,
    "answer_style": "formal",
    "customer_name": "你好 こんにちは",
    "description": "a customer",
    "location": "San Francisco",
    "setup": "Why did the chicken cross the road?",
    "punchline": "To get to the other side.",
}


async def answer_langchain_tests(exchange: Exchange) -> None:
    """Calls the first tool until it has a result, fills a requested format, and otherwise says hello."""
    await _choose(exchange.request.json)(exchange)


def _choose(body: Json) -> Script:
    tools = {tool["function"]["name"]: tool["function"] for tool in body.get("tools", ())}
    choice = body.get("tool_choice", "auto")
    if tools and choice != "none" and body["messages"][-1]["role"] != "tool":
        name = choice["function"]["name"] if isinstance(choice, dict) else next(iter(tools))
        return chat_calls((name, json.dumps(_fill(tools[name].get("parameters") or {}))))
    match body.get("response_format"):
        case {"type": "json_schema", "json_schema": {"schema": schema}}:
            return chat_text(json.dumps(_fill(schema)))
        case {"type": "json_object"}:
            return chat_text(json.dumps({name: _VALUES[name] for name in ("setup", "punchline")}))
    return chat_text("Hello ", "to ", "you.")


def _fill(schema: Json) -> Json:
    return {name: _VALUES[name] for name in schema.get("properties", ())}
