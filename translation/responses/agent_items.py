"""Items of agents that work together, and outputs without a call id, in the forms that models read."""

from collections.abc import Sequence
from typing import Final

from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.tools.unanswered_calls import UnansweredCalls

_AGENT_MESSAGE: Final = "agent_message"
_AGENT_CALL: Final = "multi_agent_call"
_AGENT_OUTPUT: Final = "multi_agent_call_output"

AGENT_TYPES: Final = frozenset({_AGENT_MESSAGE, _AGENT_CALL, _AGENT_OUTPUT})
"""Types of the items that agents exchange. Codex sends them back with every turn."""


def expand_agent_item(item: Json, position: int, losses: list[Loss]) -> Item | None:
    """Returns an item of `AGENT_TYPES` as a message, a call or the output of a call; None if nothing of it is left.

    A message keeps what only the server of its agents can read to itself: it is a loss.
    """
    if item["type"] == _AGENT_CALL:
        return {
            "type": "function_call",
            "call_id": item["call_id"],
            "name": item["action"],
            "arguments": item["arguments"],
        }
    if item["type"] == _AGENT_OUTPUT:
        texts = [{"type": "input_text", "text": part["text"]} for part in item["output"]]
        return {"type": "function_call_output", "call_id": item["call_id"], "output": texts}
    parts = [part for part in item["content"] if part["type"] != "encrypted_content"]
    if len(parts) < len(item["content"]):
        losses.append(Loss(f"input[{position}].content", "encrypted_content left out"))
    if not parts:
        return None
    head = {"type": "input_text", "text": f"Message from agent {item['author']!r} to agent {item['recipient']!r}:"}
    return {"type": "message", "role": "user", "content": [head, *parts]}


def has_call_id(item: Json) -> bool:
    """Whether an output of a function names its call. The API lets the name of the tool take its place."""
    return item.get("call_id") is not None


def pair_unnamed_outputs(items: Sequence[Item]) -> list[Item]:
    """Returns items in which every output of a function belongs to a call.

    An output without a call id gets that of the first open call of its tool. If there is none, no model can have called
    the tool: its output becomes a message of the user.
    """
    calls = UnansweredCalls()
    paired: list[Item] = []
    for item in items:
        if item["type"] == "function_call":
            calls.add(item)
        elif item["type"] == "function_call_output":
            if has_call_id(item):
                calls.pop_id(item["call_id"])
            else:
                item = _with_call(item, calls)
        paired.append(item)
    return paired


def _with_call(output: Item, calls: UnansweredCalls) -> Item:
    name = output.get("name")
    call = calls.pop_first() if name is None else calls.pop_name(name)
    if call is not None:
        return {**output, "call_id": call["call_id"]}
    content = output["output"]
    parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
    head = {"type": "input_text", "text": "Output of a tool:" if name is None else f"Output of the tool {name!r}:"}
    return {"type": "message", "role": "user", "content": [head, *parts]}
