"""Turns, and the requests of the Messages API that they become."""

from typing import Any

from providers.profiles import PROFILES
from tests.unit.support.items import call, output, user
from translation.messages.upstream.lower import lower
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn

PROFILE = PROFILES["anthropic"]
OLD, NEW = "claude-sonnet-4-5-20250929", "claude-opus-4-6"
FUNCTION = {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": False}
TOOL = {"name": "f", "description": "d", "input_schema": {"type": "object", "properties": {}}}
LOOP = [user("a"), call("c1"), output("c1")]


def lowered(model: str = NEW, profile: Profile = PROFILE, **more: Any) -> tuple[Json, list[Loss]]:
    """Returns the request without its messages and model."""
    items = more.pop("items", [user("a")])
    body, losses = lower(Turn(model=model, items=items, stream=False, **more), profile)
    said = {key: value for key, value in body.items() if key not in ("messages", "model")}
    return said, list(losses)


def with_limit(**body: Any) -> Json:
    return {"max_tokens": 32_000, **body}
