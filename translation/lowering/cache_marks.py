"""Marks in prompts, for upstreams that cache no prompt without one."""

from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import CacheTtl
from translation.representation.turn import Turn

_LONG_RETENTION = "24h"


def build_cache_mark(turn: Turn, longest: CacheTtl, losses: list[Loss]) -> Json | None:
    """Returns the `cache_control` for the marks of a prompt; None for a turn that asks for no cache.

    Without a mark, the upstream caches no prompt, and every turn pays for the whole of it. A mark costs more than none
    where the prompt is not sent again. So there is one only for requests with marks of their own, a `prompt_cache_key`
    or a `prompt_cache_retention`. `longest` is the longest time that the upstream keeps a prompt; a longer one that
    was asked for is a loss.
    """
    retention = turn.sampling.get("prompt_cache_retention")
    if not turn.sampling.get("prompt_cache_key") and not retention and turn.cache_control is None:
        return None
    mark: Json = dict(turn.cache_control or {"type": "ephemeral"})
    if retention == _LONG_RETENTION:
        mark["ttl"] = longest
        losses.append(Loss("prompt_cache_retention", f"{_LONG_RETENTION} as {longest}"))
    if longest == "1h":
        return mark
    if mark.pop("ttl", longest) != longest:  # five minutes are what a mark without it means
        losses.append(Loss("cache_control", f"1h as {longest}"))
    return mark
