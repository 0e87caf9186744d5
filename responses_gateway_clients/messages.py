"""Translates LangChain's messages to chat messages, and replies to LangChain's messages."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, convert_to_openai_messages
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call

from responses_gateway_clients.http import Json
from responses_gateway_clients.parsing import parse_response

THINKING_KEY: Final = "thinking"
"""The key of the thinking in `additional_kwargs`."""


def chat_messages_of(messages: Sequence[BaseMessage], think_tag: str) -> list[Json]:
    """Returns the messages in the form of Chat Completions. Thinking in past answers is removed from their text and put
    into `reasoning_content`."""
    chat_messages: list[Json] = []
    for message in messages:
        if isinstance(message, AIMessage):
            chat_messages.append(_assistant_message_of(message, think_tag))
        else:
            chat_messages += convert_to_openai_messages([message])
    return chat_messages


def join_thinking(thinking: str, response: str, think_tag: str) -> str:
    """Returns thinking and answer in one text: the closed thinking block, followed by the answer."""
    return f"<{think_tag}>{thinking}</{think_tag}>{response}" if thinking else response


def ai_message_of(reply: Mapping[str, Any], think_tag: str, *, split_thinking: bool) -> AIMessage:
    """Returns a reply of `/generate` as a LangChain message. With `split_thinking` its content is only the answer."""
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
    """Returns the model and the finish reason of a reply."""
    return {"model_name": reply["model"], "finish_reason": reply["finish_reason"]}


def usage_metadata_of(reply: Mapping[str, Any]) -> UsageMetadata | None:
    """Returns the token counts of a reply; None if the upstream did not report both input and output."""
    usage = reply["usage"]
    if usage is None or usage["total_tokens"] is None:
        return None
    metadata = UsageMetadata(
        input_tokens=usage["prompt_tokens"],
        output_tokens=usage["total_tokens"] - usage["prompt_tokens"],
        total_tokens=usage["total_tokens"],
    )
    if usage["cached_tokens"] is not None:
        metadata["input_token_details"] = {"cache_read": usage["cached_tokens"]}
    if usage["thinking_tokens"] is not None:
        metadata["output_token_details"] = {"reasoning": usage["thinking_tokens"]}
    return metadata


def _assistant_message_of(message: AIMessage, think_tag: str) -> Json:
    text, thinking = str(message.text), message.additional_kwargs.get(THINKING_KEY) or ""
    if thinking:
        # The thinking block is not closed if the stream ended in the middle of the thinking.
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
    for invalid_call in message.invalid_tool_calls:
        yield _build_tool_call(invalid_call["id"], invalid_call["name"], invalid_call["args"] or "")


def _build_tool_call(call_id: str | None, name: str | None, arguments: str) -> Json:
    return {"id": call_id or "", "type": "function", "function": {"name": name or "", "arguments": arguments}}
