"""Marks prompts for the caches of models that a chat API forwards, and that cache no prompt without a mark.

https://openrouter.ai/docs/guides/best-practices/prompt-caching
"""

from fnmatch import fnmatchcase
from typing import Final

from translation.lowering.cache_marks import build_cache_mark
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import CacheTtl, Profile
from translation.representation.turn import Turn

_SYSTEM_ROLES: Final = ("system", "developer")


def mark_for_caching(body: Json, turn: Turn, profile: Profile, losses: list[Loss]) -> None:
    """Marks the ends of the system prompt and of the messages, in place, if the model needs marks and the turn asks for
    a cache.

    A mark stands at a text in a list of parts. If no message can have one, that is a loss for clients that set marks.
    The one `cache_control` at the top of a request, which some servers mark the end by, is not used: OpenRouter has
    left out hosts of a model for requests with it. A client's own stays alone, because Anthropic refuses one beside a
    mark for another time.
    """
    longest = _find_longest_ttl(turn.model, profile)
    if longest is None or "cache_control" in body:
        return
    mark_losses: list[Loss] = []
    mark = build_cache_mark(turn, longest, mark_losses)
    if mark is None:
        return
    messages: list[Json] = body["messages"]
    others = (index for index, message in enumerate(messages) if message["role"] not in _SYSTEM_ROLES)
    first = next(others, len(messages))
    is_head_marked = _mark_last(messages, range(first), mark)
    is_end_marked = _mark_last(messages, range(first, len(messages)), mark)
    if is_head_marked or is_end_marked:
        _add_mark_losses(mark_losses, body, losses)
    elif turn.cache_control is not None:
        losses.append(Loss("cache_control", "dropped"))


def _add_mark_losses(mark_losses: list[Loss], body: Json, losses: list[Loss]) -> None:
    """Adds the losses of a mark, except for parameters that are sent too. Where the server refuses a parameter, the
    loss of the mark that stands for it replaces the drop."""
    reported = [loss for loss in mark_losses if loss.param not in body]
    replaced = {loss.param for loss in reported}
    losses[:] = [*[loss for loss in losses if loss.param not in replaced], *reported]


def _find_longest_ttl(model: str, profile: Profile) -> CacheTtl | None:
    name = model.lower()
    return next((ttl for pattern, ttl in profile.cache_marks.items() if fnmatchcase(name, pattern.lower())), None)


def _mark_last(messages: list[Json], indexes: range, mark: Json) -> bool:
    """Marks the last of the messages at `indexes` that can have a mark. Returns whether there is one."""
    for index in reversed(indexes):
        message = messages[index]
        # Only in other messages are lists of parts documented with marks.
        if message["role"] != "assistant" and (parts := _mark_parts(message.get("content"), mark)) is not None:
            messages[index] = {**message, "content": parts}
            return True
    return False


def _mark_parts(content: str | list[Json] | None, mark: Json) -> list[Json] | None:
    """Returns the content of a message with a mark at its last text; None if it has no text. Upstreams refuse marks at
    blank texts."""
    parts: list[Json] = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    for index in reversed(range(len(parts))):
        text = parts[index].get("text")
        if isinstance(text, str) and text and not text.isspace():
            return [*parts[:index], {**parts[index], "cache_control": mark}, *parts[index + 1 :]]
    return None
