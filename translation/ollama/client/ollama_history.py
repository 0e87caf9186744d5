"""Lifts the messages of a chat request to Responses items. Does not know the request's parameters."""

from collections.abc import Sequence
from typing import Final

import orjson

from translation.errors import InvalidRequest
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.tools.unanswered_calls import UnansweredCalls

_TOOL_KEYS: Final = frozenset({"tool_name", "tool_call_id", "name"})

_OWN_KEYS: Final = {
    "thinking": frozenset({"assistant"}),
    "tool_calls": frozenset({"assistant"}),
    "images": frozenset({"system", "user", "tool"}),
    **dict.fromkeys(_TOOL_KEYS, frozenset({"tool"})),
}
"""Key of a message -> the roles in whose messages it has a meaning."""

_TYPES_BY_HEAD: Final = (
    ("iVBORw0KGgo", "image/png"),
    ("/9j/", "image/jpeg"),
    ("R0lGOD", "image/gif"),
    ("UklGR", "image/webp"),
)
"""(how images of a type begin in base64, the type)."""


def lift_conversation(messages: Sequence[Json], losses: list[Loss]) -> list[Item]:
    """Returns the messages as items in full form. Losses are appended to `losses`.

    Raises InvalidRequest for an image of an unknown type, and for a tool message whose call is not in an earlier
    message.
    """
    return _MessageLifter(losses).lift(messages)


class _MessageLifter:
    def __init__(self, losses: list[Loss]) -> None:
        self._losses = losses
        self._items: list[Item] = []
        self._open_calls = UnansweredCalls()
        self._call_count = 0

    def lift(self, messages: Sequence[Json]) -> list[Item]:
        for index, message in enumerate(messages):
            role = message["role"].lower()
            self._losses += [
                Loss(f"messages[{index}].{key}", "dropped")
                for key, value in message.items()
                if value and role not in _OWN_KEYS.get(key, (role,))
            ]
            match role:
                case "assistant":
                    self._lift_assistant(message)
                case "tool":
                    self._lift_output(message, index)
                case _:
                    self._items.append({"type": "message", "role": role, "content": _lift_content(message, index)})
        return self._items

    def _lift_assistant(self, message: Json) -> None:
        if thinking := message.get("thinking"):
            content = [{"type": "reasoning_text", "text": thinking}]
            self._items.append({"type": "reasoning", "summary": [], "content": content})
        calls = message.get("tool_calls") or ()
        text = message.get("content") or ""
        if text or not (calls or thinking):
            # An empty message is kept, so that the roles still alternate.
            part: Json = {"type": "output_text", "text": text, "annotations": []}
            self._items.append({"type": "message", "role": "assistant", "content": [part]})
        for call in calls:
            self._call_count += 1
            # Older clients have no ids. Their calls are counted, so that a history always has the same ids.
            call_id = call.get("id") or f"call_{self._call_count}"
            function = call["function"]
            arguments = orjson.dumps(function.get("arguments") or {}).decode()
            item: Item = {
                "type": "function_call",
                "call_id": call_id,
                "name": function["name"],
                "arguments": arguments,
            }
            self._items.append(item)
            self._open_calls.pop_id(call_id)  # a repeated id has one output
            self._open_calls.add(item)

    def _lift_output(self, message: Json, index: int) -> None:
        call_id = self._close_call(message, index)
        parts = _lift_content(message, index)
        output = parts if message.get("images") else message.get("content") or ""
        self._items.append({"type": "function_call_output", "call_id": call_id, "output": output})

    def _close_call(self, message: Json, index: int) -> str:
        """Returns the id of the call that a tool message answers: by its id, else the first open one of its name,
        else the first open one."""
        call_id, name = message.get("tool_call_id"), message.get("tool_name")
        if call_id:
            key, call = "tool_call_id", self._open_calls.pop_id(call_id)
        elif name:
            key, call = "tool_name", self._open_calls.pop_name(name)
        else:
            # Older clients have `name`, which Ollama itself ignores.
            key, call = "role", self._open_calls.pop_name(message.get("name") or "") or self._open_calls.pop_first()
        if call is not None:
            closed_id: str = call["call_id"]
            return closed_id
        raise InvalidRequest(
            f"messages[{index}] is the result of a tool, but no earlier message has a call for it.",
            param=f"messages[{index}].{key}",
        )


def _lift_content(message: Json, index: int) -> list[Json]:
    images = lift_images(message.get("images") or (), f"messages[{index}].images")
    text = message.get("content") or ""
    return [*([{"type": "input_text", "text": text}] if text or not images else []), *images]


def lift_images(images: Sequence[str], param: str) -> list[Json]:
    """Returns an `input_image` part for each image. Raises InvalidRequest for one of an unknown type.

    `param` is the path of the list.
    """
    return [_lift_image(image, f"{param}[{index}]") for index, image in enumerate(images)]


def _lift_image(image: str, param: str) -> Json:
    if "\n" in image:
        image = image.replace("\r", "").replace("\n", "")
    for head, media_type in _TYPES_BY_HEAD:
        if image.startswith(head):
            return {"type": "input_image", "image_url": f"data:{media_type};base64,{image}"}
    raise InvalidRequest(f"'{param}' is no PNG, JPEG, GIF or WebP image in base64.", param=param)
