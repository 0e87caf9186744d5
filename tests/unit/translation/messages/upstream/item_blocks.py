"""Items, and the blocks of the Messages API that they become."""

from typing import Any

from translation.messages.upstream.lower_items import lower_items
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.profile import DEFAULT_PROFILE, Profile
from translation.representation.turn import Turn

SIGNED = {"type": "anthropic.thinking", "thinking": "Hm.", "signature": "s1"}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def thought(*details: Any, words: str = "") -> Item:
    content = [{"type": "reasoning_text", "text": words}] if words else []
    return {"type": "reasoning", "id": "rs_1", "summary": [], "content": content, "details": list(details)}


def use(call_id: str, **given: Any) -> Json:
    return {"type": "tool_use", "id": call_id, "name": "f", "input": given}


def result(call_id: str, *blocks: Json) -> Json:
    return {"type": "tool_result", "tool_use_id": call_id, "content": list(blocks) or [text("ok")]}


def entry(role: str, *blocks: Json) -> Json:
    return {"role": role, "content": list(blocks)}


def lower(*items: Item, profile: Profile = DEFAULT_PROFILE, instructions: str | None = None) -> tuple[Any, list[Loss]]:
    losses: list[Loss] = []
    return lower_items(Turn("m", items, instructions), profile, losses), losses


THINKING = {"type": "thinking", "thinking": "Hm.", "signature": "s1"}
HIDDEN = {"type": "redacted_thinking", "data": "d1"}
