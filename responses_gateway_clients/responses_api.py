"""`POST /v1/responses`, with replies in the form of `/generate`."""

import json
from collections.abc import Iterator
from typing import Any, Final

from responses_gateway_clients.contract import GatewayRequest, ReplyReader, drop_none
from responses_gateway_clients.http import GatewayError, Json, JsonFrame, gateway_error_of

_TEXT_KEYS: Final = {"output_text": "text", "refusal": "refusal"}

_DELTA_KEYS: Final = {
    "response.output_text.delta": "response",
    "response.refusal.delta": "response",
    "response.reasoning_text.delta": "thinking",
    "response.reasoning_summary_text.delta": "thinking",
}


class ResponsesApi:
    """The API `POST /v1/responses`, without storing anything. `two_pass`, `think_tag` and `tool_parser` of a request
    are ignored, because this API leaves them to the model's configuration."""

    path = "/v1/responses"

    def build_body(self, request: GatewayRequest, *, stream: bool) -> Json:
        tools = [{"type": "function", "strict": False, **tool} for tool in request.tools]
        choice = (
            {"type": "function", **request.tool_choice}
            if isinstance(request.tool_choice, dict)
            else request.tool_choice
        )
        thinking, answer = request.max_thinking_tokens, request.max_response_tokens
        body = drop_none(
            {
                "input": [item for message in request.messages for item in _items_of(message)],
                "model": request.model,
                "temperature": request.temperature,
                "stop": list(request.stop) if request.stop else None,
                "reasoning": {"max_tokens": thinking} if thinking else None,
                "thinking": False if thinking == 0 else None,
                # This API has one limit for thinking and answer together.
                "max_output_tokens": None if answer is None else answer + (thinking or 0),
                "tools": tools or None,
                "tool_choice": choice,
                "text": {"format": _text_format(request.response_format)} if request.response_format else None,
            }
        )
        return {**body, "store": False, "stream": stream, **request.extra_fields}

    def parse_reply(self, body: Json) -> Json:
        if body.get("status") == "failed":
            raise gateway_error_of(body.get("error") or {})
        return _parse_response(body)

    def create_reader(self) -> ReplyReader:
        return _ResponsesReader()


class _ResponsesReader:
    def __init__(self) -> None:
        self.reply: Json | None = None
        self._calls: dict[int, int] = {}
        """Output index -> number of the call, from 0."""

    def feed(self, frame: JsonFrame) -> list[Json]:
        event = frame.payload
        kind = event.get("type", "")
        if (key := _DELTA_KEYS.get(kind)) is not None:
            return [{key: event["delta"]}]
        match kind:
            case "response.output_item.added" if event["item"]["type"] == "function_call":
                number = self._calls[event["output_index"]] = len(self._calls)
                item = event["item"]
                call = {"index": number, "id": item["call_id"], "name": item["name"], "arguments": ""}
                return [{"tool_call": call}]
            case "response.function_call_arguments.delta":
                number = self._calls[event["output_index"]]
                return [{"tool_call": {"index": number, "arguments": event["delta"]}}]
            case "response.completed" | "response.incomplete":
                self.reply = _parse_response(event["response"])
            case "response.failed":
                raise gateway_error_of(event["response"].get("error") or {})
            case "error":
                raise gateway_error_of(event)
        return []


def _parse_response(response: Json) -> Json:
    thinking: list[str] = []
    texts: list[str] = []
    calls: list[Json] = []
    reason = (response.get("incomplete_details") or {}).get("reason")
    for item in response["output"]:
        match item["type"]:
            case "reasoning":
                parts = [*(item.get("summary") or ()), *(item.get("content") or ())]
                thinking += [part.get("text") or "" for part in parts]
            case "message":
                texts += [part[_TEXT_KEYS[part["type"]]] for part in item["content"] if part["type"] in _TEXT_KEYS]
            case "function_call":
                calls += _parse_call(item, cut=reason is not None or item.get("status") == "incomplete")
    text = "".join(texts).strip() if calls else "".join(texts)
    return {
        "thinking": "".join(thinking),
        "response": text,
        "tool_calls": calls,
        "pre_tool_text": text if calls else "",
        "finish_reason": _finish_reason(reason, calls),
        "model": response.get("model"),
        "usage": _parse_usage(response.get("usage")),
    }


def _parse_call(item: Json, *, cut: bool) -> Iterator[Json]:
    try:
        arguments: Any = json.loads(item["arguments"] or ("null" if cut else "{}"))
    except ValueError:
        arguments = None
    if isinstance(arguments, dict):
        yield {"id": item["call_id"], "name": item["name"], "arguments": arguments}
    elif not cut:
        message = f"the model called '{item['name']}' with arguments that are not a JSON object"
        raise GatewayError(message, code="tool_call_parse_error")


def _finish_reason(incomplete: str | None, calls: list[Json]) -> str:
    if incomplete is not None:
        return "length" if incomplete == "max_output_tokens" else incomplete
    return "tool_calls" if calls else "stop"


def _parse_usage(usage: Json | None) -> Json | None:
    if usage is None:
        return None
    thinking = (usage.get("output_tokens_details") or {}).get("reasoning_tokens")
    return {
        "prompt_tokens": usage["input_tokens"],
        "thinking_tokens": thinking,
        "response_tokens": usage["output_tokens"] - (thinking or 0),
        "total_tokens": usage["total_tokens"],
        "cached_tokens": (usage.get("input_tokens_details") or {}).get("cached_tokens"),
    }


def _text_format(response_format: Json) -> Json:
    if response_format["type"] != "json_schema":
        return response_format
    return {"type": "json_schema", **response_format["json_schema"]}


def _items_of(message: Json) -> Iterator[Json]:
    content = message.get("content") or ""
    match message["role"]:
        case "tool":
            yield {"type": "function_call_output", "call_id": message["tool_call_id"], "output": _content_of(content)}
        case "assistant":
            if thinking := message.get("reasoning_content"):
                content_parts = [{"type": "reasoning_text", "text": thinking}]
                yield {"type": "reasoning", "summary": [], "content": content_parts}
            calls = message.get("tool_calls") or ()
            if content or not calls:
                yield {"type": "message", "role": "assistant", "content": content}
            for call in calls:
                yield {"type": "function_call", "call_id": call["id"], **call["function"]}
        case role:
            yield {"type": "message", "role": role, "content": _content_of(content)}


def _content_of(content: str | list[Json]) -> str | list[Json]:
    return content if isinstance(content, str) else [_part_of(part) for part in content]


def _part_of(part: Json) -> Json:
    match part["type"]:
        case "text":
            return {"type": "input_text", "text": part["text"]}
        case "image_url":
            return {"type": "input_image", "image_url": part["image_url"]["url"], "detail": "auto"}
        case "file":
            return {"type": "input_file", **part["file"]}
        case _:
            return part
