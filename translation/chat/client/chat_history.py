"""Lifts the messages of a Chat Completions request into Responses items. Does not know the request's parameters."""

from collections.abc import Callable, Sequence
from typing import Any

from translation.chat.reasoning import DETAILS_FIELD, EXTRA_CONTENT, build_call_detail, find_reasoning_text
from translation.errors import InvalidRequest, Unrepresentable
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss

_OUTPUT_TYPES = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}


def lift_messages(messages: Sequence[Json], losses: list[Loss], *, relayed: bool) -> list[Item]:
    """Returns the messages as items in full form. Losses are appended to `losses`.

    Raises InvalidRequest for a tool message whose call is not in an earlier message, and for a file part without data.
    Unless `relayed`, raises Unrepresentable for a reference to an earlier audio reply, because no upstream has it.
    """
    return _MessageLifter(losses, relayed=relayed).lift(messages)


class _MessageLifter:
    def __init__(self, losses: list[Loss], *, relayed: bool) -> None:
        self._losses = losses
        self._relayed = relayed
        self._items: list[Item] = []
        self._calls: dict[str, str] = {}
        """Call id -> item type of the latest call with that id."""
        self._functions: dict[str, str] = {}
        """Function name -> id generated for its latest `function_call`, the legacy form, which has no ids."""

    def lift(self, messages: Sequence[Json]) -> list[Item]:
        for index, message in enumerate(messages):
            match message["role"]:
                case "assistant":
                    self._lift_assistant(message, index)
                case "tool":
                    self._lift_tool_output(message, index)
                case "function":
                    self._lift_function_output(message, index)
                case role:
                    self._report_name_loss(message)
                    content = self._lift_parts(message["content"], f"messages[{index}].content")
                    self._items.append({"type": "message", "role": role, "content": content})
        return self._items

    def _lift_assistant(self, message: Json, index: int) -> None:
        self._report_name_loss(message)
        if message.get("audio") and not self._relayed:
            raise Unrepresentable(
                "earlier audio replies cannot be referenced: send their transcript as content",
                param=f"messages[{index}].audio",
            )
        if (reasoning := _lift_reasoning(message)) is not None:
            self._items.append(reasoning)
        calls = [_lift_call(call) for call in message.get("tool_calls") or ()]
        if details := [
            build_call_detail(call["id"], call[EXTRA_CONTENT])
            for call in message.get("tool_calls") or ()
            if call.get(EXTRA_CONTENT)
        ]:
            self._items.append({"type": "reasoning", "summary": [], "details": details})
        if legacy := message.get("function_call"):
            call_id = self._functions[legacy["name"]] = f"call_messages_{index}"
            calls.append({"type": "function_call", "call_id": call_id, **_pick_keys(legacy, "name", "arguments")})
        parts = _assistant_parts(message)
        if parts or not (calls or reasoning):
            # An empty message is kept, so that the roles still alternate.
            content = parts or [_output_text_part("")]
            self._items.append({"type": "message", "role": "assistant", "content": content})
        self._items += calls
        self._calls |= {call["call_id"]: call["type"] for call in calls}

    def _lift_tool_output(self, message: Json, index: int) -> None:
        call_id = message["tool_call_id"]
        if call_id not in self._calls:
            raise InvalidRequest(
                f"messages[{index}] answers the tool call {call_id!r}, but no earlier assistant message contains it.",
                param=f"messages[{index}].tool_call_id",
            )
        content = message["content"]
        output = content if isinstance(content, str) else self._lift_parts(content, f"messages[{index}].content")
        self._items.append({"type": _OUTPUT_TYPES[self._calls[call_id]], "call_id": call_id, "output": output})

    def _lift_function_output(self, message: Json, index: int) -> None:
        call_id = self._functions.get(message["name"])
        if call_id is None:
            raise InvalidRequest(
                f"messages[{index}] answers the function {message['name']!r}, but no earlier message calls it.",
                param=f"messages[{index}].name",
            )
        output = message["content"] or ""
        self._items.append({"type": "function_call_output", "call_id": call_id, "output": output})

    def _report_name_loss(self, message: Json) -> None:
        if message.get("name"):
            self._losses.append(Loss("messages.name", "dropped"))

    def _lift_parts(self, content: str | list[Json], param: str) -> list[Json]:
        if isinstance(content, str):
            return [{"type": "input_text", "text": content}]
        return [self._lift_part(part, f"{param}[{index}]") for index, part in enumerate(content)]

    def _lift_part(self, part: Json, param: str) -> Json:
        kind = part["type"]
        if kind == "file" and not _pick_keys(part["file"], "file_data", "file_id"):
            raise InvalidRequest(
                f"Missing required parameter: '{param}.file.file_data'.",
                param=f"{param}.file.file_data",
                code="missing_required_parameter",
            )
        return _PART_LIFTERS[kind](part[kind])


def _lift_image(image: Json) -> Json:
    return {"type": "input_image", "image_url": image["url"], **_pick_keys(image, "detail")}


_PART_LIFTERS: dict[str, Callable[[Any], Json]] = {
    "text": lambda text: {"type": "input_text", "text": text},
    "image_url": _lift_image,
    "input_audio": lambda audio: {"type": "input_audio", "input_audio": _pick_keys(audio, "data", "format")},
    "file": lambda file: {"type": "input_file", **_pick_keys(file, "file_data", "file_id", "filename")},
}
"""Type of a content part, which is also the key of its content -> function from that content to a Responses part."""


def _lift_reasoning(message: Json) -> Item | None:
    text = find_reasoning_text(message)
    details = message.get(DETAILS_FIELD)
    if not (text or details):
        return None
    item: Item = {"type": "reasoning", "summary": []}
    if text:
        item["content"] = [{"type": "reasoning_text", "text": text}]
    if details:
        item["details"] = details
    return item


def _assistant_parts(message: Json) -> list[Json]:
    """Returns the content and refusal of an assistant message as output parts. An empty text gives no part."""
    content = message.get("content") or ()
    chat_parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    parts = [
        _output_text_part(part["text"]) if part["type"] == "text" else _refusal_part(part["refusal"])
        for part in chat_parts
    ]
    if message.get("refusal"):
        parts.append(_refusal_part(message["refusal"]))
    return parts


def _refusal_part(text: str) -> Json:
    return {"type": "refusal", "refusal": text}


def _output_text_part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": []}


def _lift_call(call: Json) -> Item:
    if call.get("type") == "custom":
        return {"type": "custom_tool_call", "call_id": call["id"], **_pick_keys(call["custom"], "name", "input")}
    return {"type": "function_call", "call_id": call["id"], **_pick_keys(call["function"], "name", "arguments")}


def _pick_keys(values: Json, *keys: str) -> Json:
    return {key: values[key] for key in keys if values.get(key) is not None}
