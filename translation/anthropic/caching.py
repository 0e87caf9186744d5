"""Sets `cache_control` marks. Without one the API caches no prompt, and every turn pays for the whole of it."""

from collections.abc import Mapping
from typing import Any

from translation.representation.json_types import Json
from translation.representation.loss import Loss


def mark_for_caching(body: Json, sampling: Mapping[str, Any], losses: list[Loss]) -> None:
    """Marks the end of the system prompt (or of the tools) and the end of the messages, in place.

    Only for requests with a `prompt_cache_key` or a `prompt_cache_retention`. The API has no parameter for the key. The
    retention `24h` becomes `1h`, the API's longest, which is reported as a loss.
    """
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
