"""Lowers the reasoning parameters to `think`: on or off for most models, and one of three levels for gpt-oss."""

from typing import Final

from translation.lowering.reasoning import find_reasoning_losses
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn

_LEVELS_MODEL: Final = "gpt-oss"
"""A model with this in its name accepts levels. Ollama refuses them for all others."""

_LEVEL_OF_EFFORT: Final = {
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "high",
}
"""`reasoning.effort` -> the level in `think`."""


def lower_thinking(turn: Turn, profile: Profile, losses: list[Loss]) -> Json:
    """Returns `think` as a key of a body, an empty object if the request leaves thinking to the model's default.

    For a model with levels (`thinking_form: adaptive`, or by its name) the effort becomes a level. For any other an
    effort turns thinking on, and `none` turns it off. Thinking of a model with levels cannot be turned off, so it gets
    the lowest level. Losses are appended to `losses`.
    """
    reasoning = {key: value for key, value in (turn.reasoning or {}).items() if value is not None}
    effort = reasoning.pop("effort", None)
    losses += find_reasoning_losses(reasoning)
    has_levels = _has_levels(turn.model, profile)
    if turn.thinking is False or effort == "none":
        if not has_levels:
            return {"think": False}
        losses.append(Loss("reasoning.effort", "none as low") if effort == "none" else Loss("thinking", "false as low"))
        return {"think": "low"}
    if effort is None:
        return {} if turn.thinking is None else {"think": True}
    if not has_levels:
        losses.append(Loss("reasoning.effort", f"{effort} as on"))
        return {"think": True}
    level = _LEVEL_OF_EFFORT.get(effort, "medium")
    if level != effort:
        losses.append(Loss("reasoning.effort", f"{effort} as {level}"))
    return {"think": level}


def _has_levels(model: str, profile: Profile) -> bool:
    if profile.thinking_form == "by_model":
        return _LEVELS_MODEL in model.lower()
    return profile.thinking_form == "adaptive"
