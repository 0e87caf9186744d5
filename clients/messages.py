"""LangChain's messages as chat's, and replies as LangChain's messages."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, convert_to_openai_messages
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call

from clients.http import Json
from clients.parsing import parse_response

THINKING_KEY: Final = "thinking"
"""The key of `additional_kwargs` that thinking is in."""


def chat_messages_of(messages: Sequence[BaseMessage], think_tag: str) -> list[Json]:
    """Messages in chat's shape. Thinking is taken out of past answers and goes beside them, in `reasoning_content`."""
    chat_messages: list[Json] = []
    for message in messages:
        if isinstance(message, AIMessage):
            chat_messages.append(_assistant_message_of(message, think_tag))
        else:
            chat_messages += convert_to_openai_messages([message])
    return chat_messages


def join_thinking(thinking: str, response: str, think_tag: str) -> str:
    """Thinking and answer in one text: the block, closed, and what follows it."""
    return f"<{think_tag}>{thinking}</{think_tag}>{response}" if thinking else response


def ai_message_of(reply: Mapping[str, Any], think_tag: str, *, split_thinking: bool) -> AIMessage:
    """A reply of `/generate` as a message."""
    thinking, response = reply["thinking"], reply["response"]
    return AIMessage(
        content=response if split_thinking else join_thinking(thinking, response, think_tag),
        additional_kwargs={THINKING_KEY: thinking} if thinking else {},
        tool_calls=[
            tool_call(name=call["name"], args=call["arguments"], id=call["id"]) for call in reply["tool_calls"]
        ],
        response_metadata=response_metadata_of(reply),
        usage_metadata=usage_metadata_of(reply),
    )


def response_metadata_of(reply: Mapping[str, Any]) -> Json:
    """What is known of how a reply was made."""
    return {"model_name": reply["model"], "finish_reason": reply["finish_reason"]}


def usage_metadata_of(reply: Mapping[str, Any]) -> UsageMetadata | None:
    """The counts of a reply; None where the upstream did not report both directions."""
    counts = reply["usage"]
    if counts is None or counts["total_tokens"] is None:
        return None
    metadata_counts = UsageMetadata(
        input_tokens=counts["prompt_tokens"],
        output_tokens=counts["total_tokens"] - counts["prompt_tokens"],
        total_tokens=counts["total_tokens"],
    )
    if counts["cached_tokens"] is not None:
        metadata_counts["input_token_details"] = {"cache_read": counts["cached_tokens"]}
    if counts["thinking_tokens"] is not None:
        metadata_counts["output_token_details"] = {"reasoning": counts["thinking_tokens"]}
    return metadata_counts


def _assistant_message_of(message: AIMessage, think_tag: str) -> Json:
    text, thinking = str(message.text), message.additional_kwargs.get(THINKING_KEY) or ""
    if thinking:
        # What was streamed may be cut off in the middle of its thoughts.
        text = text.removeprefix(join_thinking(thinking, "", think_tag)).removeprefix(f"<{think_tag}>{thinking}")
    elif text.lstrip().startswith("<think"):
        parsed = parse_response(text, "think_tags", think_tag)
        text, thinking = parsed["response"], parsed["thinking"]
    chat_message: Json = {"role": "assistant", "content": text}
    if thinking:
        chat_message["reasoning_content"] = thinking
    if message.name:
        chat_message["name"] = message.name
    if calls := list(_tool_calls_of(message)):
        chat_message["tool_calls"] = calls
    return chat_message


def _tool_calls_of(message: AIMessage) -> Iterator[Json]:
    for call in message.tool_calls:
        yield _build_tool_call(call["id"], call["name"], json.dumps(call["args"], ensure_ascii=False))
    for broken in message.invalid_tool_calls:
        yield _build_tool_call(broken["id"], broken["name"], broken["args"] or "")


def _build_tool_call(call_id: str | None, name: str | None, arguments: str) -> Json:
    return {"id": call_id or "", "type": "function", "function": {"name": name or "", "arguments": arguments}}
