"""Validates messages of the Messages API and their streams, and converts them to responses for the checks that all APIs
share. Malformed messages raise CheckFailed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import orjson

from gateway.doctor.checks.verdicts import CheckFailed, require
from translation.representation.json_types import Json

_STOP_REASONS: Final = frozenset({"end_turn", "tool_use", "stop_sequence", "refusal", "max_tokens"})
_DELTA_KEYS: Final = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("thinking", "signature"),
    "input_json_delta": ("tool_use", "partial_json"),
}
"""Type of a delta -> the type of its block, and the key of its text."""


def check_message(message: Json) -> Json:
    """Validates a whole message. Returns it as a response. Raises CheckFailed."""
    require(message.get("type") == "message", "the reply is not a message")
    require(message.get("role") == "assistant", f"the message has the role {message.get('role')}")
    require(bool(message.get("id")), "the message has no id")
    require(isinstance(message.get("model"), str), "the message has no model")
    reason = message.get("stop_reason")
    require(reason in _STOP_REASONS, f"the stop_reason is {reason}")
    content = message.get("content")
    if not isinstance(content, list) or not all(isinstance(block, dict) and block.get("type") for block in content):
        raise CheckFailed("the content is not a list of blocks")
    output = [_to_item(block) for block in content]
    has_calls = any(item["type"] == "function_call" for item in output)
    require((reason == "tool_use") <= has_calls, "the stop_reason is tool_use, but there are no tool calls")
    counts = _check_usage(message.get("usage"))
    return {
        "status": "incomplete" if reason == "max_tokens" else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if reason == "max_tokens" else None,
        "output": output,
        "content": content,
        "usage": {"output_tokens": counts["output_tokens"]},
    }


def check_message_events(events: Sequence[Json]) -> Json:
    """Validates the events of a stream. Returns the message as a response.

    Raises CheckFailed for the first event that is invalid or out of order.
    """
    require(bool(events), "the stream has no events")
    builder = _MessageBuilder()
    for position, event in enumerate(events):
        try:
            builder.add_event(event)
        except (KeyError, TypeError, AttributeError) as error:
            raise CheckFailed(f"event {position}, {event.get('type')}, is malformed: {error!r}") from error
    require(builder.is_stopped, "the stream ends without message_stop")
    return check_message(builder.build_message())


@dataclass(slots=True)
class _MessageBuilder:
    """Builds a message from the events of its stream."""

    head: Json = field(default_factory=dict)
    content: list[Json] = field(default_factory=list)
    is_stopped: bool = False
    _is_open: bool = False
    """Whether the last block has not ended."""

    def add_event(self, event: Json) -> None:
        kind = event["type"]
        if kind == "ping":
            return
        require(not self.is_stopped, f"{kind} follows message_stop")
        require(bool(self.head) == (kind != "message_start"), f"{kind} is out of order: it comes once, and first")
        match kind:
            case "message_start":
                self.head = dict(event["message"])
                require(not self.head["content"], "message_start has content")
            case "content_block_start" | "content_block_delta" | "content_block_stop":
                self._add_block_event(kind, event)
            case "message_delta":
                require(not self._is_open, "message_delta comes before the end of a block")
                self.head |= event["delta"]
                self.head["usage"] = {**self.head["usage"], **event["usage"]}
            case "message_stop":
                self.is_stopped = True

    def build_message(self) -> Json:
        return {**self.head, "content": [_complete_block(block) for block in self.content]}

    def _add_block_event(self, kind: str, event: Json) -> None:
        require(self.head.get("stop_reason") is None, f"{kind} follows message_delta")
        is_start = kind == "content_block_start"
        require(self._is_open != is_start, f"{kind} is out of order: one block ends before the next begins")
        index = len(self.content) if is_start else len(self.content) - 1
        require(event["index"] == index, f"{kind} has the index {event['index']} instead of {index}")
        self._is_open = kind != "content_block_stop"
        if is_start:
            self.content.append(dict(event["content_block"]))
        elif kind == "content_block_delta" and (delta := event["delta"])["type"] in _DELTA_KEYS:
            block_type, key = _DELTA_KEYS[delta["type"]]
            block = self.content[-1]
            require(block["type"] == block_type, f"a {delta['type']} is in a block of type {block['type']}")
            block[key] = block.get(key, "") + delta[key]


def _complete_block(block: Json) -> Json:
    """Returns a block. If it is a call whose input was streamed, the block gets the input."""
    if "partial_json" not in block:
        return block
    text = block["partial_json"]
    try:
        arguments = orjson.loads(text or "{}")
    except orjson.JSONDecodeError:
        raise CheckFailed(f"the deltas of a call are not JSON: {text[:80]}") from None
    return {**{key: value for key, value in block.items() if key != "partial_json"}, "input": arguments}


def _to_item(block: Json) -> Json:
    match block["type"]:
        case "text":
            return {"type": "message", "content": [{"type": "output_text", "text": block.get("text")}]}
        case "tool_use":
            arguments = orjson.dumps(block.get("input")).decode()
            call_id, name = block.get("id"), block.get("name")
            return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
        case "thinking" | "redacted_thinking":
            return {"type": "reasoning"}
    return {"type": block["type"]}


def _check_usage(usage: object) -> Json:
    if not isinstance(usage, dict):
        raise CheckFailed("the message has no usage")
    for name in ("input_tokens", "output_tokens"):
        if type(usage.get(name)) is not int or usage[name] < 0:
            raise CheckFailed(f"usage.{name} is {usage.get(name)}")
    return usage
