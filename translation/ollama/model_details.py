"""What Ollama shows of a model, as far as it decides how a request is answered."""

import re
from typing import Any, Final, NamedTuple

from translation.decoding.usage_counts import read_count
from translation.representation.json_types import Json

_CONTEXT_LENGTH_SUFFIX: Final = ".context_length"

_NUM_CTX: Final = re.compile(r"^num_ctx\s+([1-9][0-9]{0,8})\s*$", re.MULTILINE)


class ModelFacts(NamedTuple):
    """Facts about one model; `None` where a server does not tell them."""

    context_window: int | None
    """How long its context is where a request does not say: its own option `num_ctx`, and all of it in the cloud. Any
    other has as much as its server gives to every model, which nothing tells."""
    max_context: int | None
    """The longest context that it was made for; asked for more, it has this much."""
    capabilities: frozenset[str] | None
    """`completion`, `tools`, `thinking`, `vision`, `embedding`, …"""

    def has_capability(self, ability: str) -> bool | None:
        """`None` where nothing is known."""
        return None if self.capabilities is None else ability in self.capabilities

    def context_window_for(self, num_ctx: object) -> int | None:
        """How long its context is for a request with this option."""
        requested = read_count(num_ctx) or self.context_window
        return requested if requested is None or self.max_context is None else min(requested, self.max_context)


def parse_model_facts(answer: Json) -> ModelFacts:
    """The facts in an answer of `POST /api/show`."""
    reported = answer.get("capabilities")
    abilities = frozenset(each for each in reported if isinstance(each, str)) if isinstance(reported, list) else None
    longest = _max_context_length(answer.get("model_info"))
    window = longest if answer.get("remote_host") else _parse_num_ctx(answer.get("parameters"))
    return ModelFacts(window, longest, abilities)


def _parse_num_ctx(parameters: Any) -> int | None:
    """The parameters of a model are a text: a name and a value on each line."""
    found = _NUM_CTX.search(parameters) if isinstance(parameters, str) else None
    return int(found[1]) if found else None


def _max_context_length(facts: Any) -> int | None:
    """The key begins with the architecture, which is the first of the facts."""
    if not isinstance(facts, dict):
        return None
    architecture = facts.get("general.architecture")
    keys = [f"{architecture}{_CONTEXT_LENGTH_SUFFIX}", *(key for key in facts if key.endswith(_CONTEXT_LENGTH_SUFFIX))]
    return next((count for key in keys if (count := read_count(facts.get(key)))), None)
