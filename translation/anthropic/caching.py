"""Marks up to which a prompt is remembered: without one, nothing is, and the next turn pays for all of it again."""

from collections.abc import Mapping
from typing import Any

from translation.representation.json_types import Json
from translation.representation.loss import Loss


def mark_for_caching(body: Json, sampling: Mapping[str, Any], losses: list[Loss]) -> None:
    """Mark the end of what every request begins with, and the end of the whole, for who gives a `prompt_cache_key` or
    says how long to keep it. The key itself tells this API nothing."""
    retention = sampling.get("prompt_cache_retention")
    if not sampling.get("prompt_cache_key") and not retention:
        return
    mark: Json = {"type": "ephemeral"}
    if retention == "24h":
        mark["ttl"] = "1h"
        losses.append(Loss("prompt_cache_retention", "24h as 1h"))
    if "system" in body:
        body["system"] = [{"type": "text", "text": body["system"], "cache_control": mark}]
    elif "tools" in body:
        body["tools"][-1]["cache_control"] = mark
    body["messages"][-1]["content"][-1]["cache_control"] = mark
