"""Parses what Ollama reports about a model: context window and capabilities."""

import re
from typing import Any, Final, NamedTuple

from translation.decoding.usage import read_count
from translation.representation.json_types import Json

_CONTEXT_LENGTH_SUFFIX: Final = ".context_length"

_NUM_CTX: Final = re.compile(r"^num_ctx\s+([1-9][0-9]{0,8})\s*$", re.MULTILINE)


class ModelFacts(NamedTuple):
    """Facts about one model. `None` means that the server does not report it."""

    context_window: int | None
    """The context window in tokens if the request sets none: the model's own option `num_ctx`, or `max_context` for a
    cloud model. `None` for any other model: it gets the server's default, which no endpoint reports."""
    max_context: int | None
    """The longest context that the model supports, in tokens. A longer one in a request is reduced to it."""
    capabilities: frozenset[str] | None
    """`completion`, `tools`, `thinking`, `vision`, `embedding`, …"""

    def has_capability(self, name: str) -> bool | None:
        """Whether the model has a capability, `None` if the server reports none for it."""
        return None if self.capabilities is None else name in self.capabilities

    def find_context_window(self, num_ctx: object) -> int | None:
        """Returns the context window in tokens for a request with this option `num_ctx`, `None` if it is unknown."""
        requested = read_count(num_ctx) or self.context_window
        return requested if requested is None or self.max_context is None else min(requested, self.max_context)


def parse_model_facts(reply: Json) -> ModelFacts:
    """Returns the facts in a reply of `POST /api/show`."""
    listed = reply.get("capabilities")
    capabilities = frozenset(name for name in listed if isinstance(name, str)) if isinstance(listed, list) else None
    max_context = _max_context_length(reply.get("model_info"))
    window = max_context if reply.get("remote_host") else _parse_num_ctx(reply.get("parameters"))
    return ModelFacts(window, max_context, capabilities)


def _parse_num_ctx(parameters: Any) -> int | None:
    """Returns `num_ctx` from a model's parameters, a text with a name and a value on each line."""
    match = _NUM_CTX.search(parameters) if isinstance(parameters, str) else None
    return int(match[1]) if match else None


def _max_context_length(facts: Any) -> int | None:
    """Returns the context length from `model_info`. Its key begins with the model's architecture."""
    if not isinstance(facts, dict):
        return None
    architecture = facts.get("general.architecture")
    keys = [f"{architecture}{_CONTEXT_LENGTH_SUFFIX}", *(key for key in facts if key.endswith(_CONTEXT_LENGTH_SUFFIX))]
    return next((count for key in keys if (count := read_count(facts.get(key)))), None)
