"""What Ollama shows of a model, as far as it decides how a request is answered."""

import re
from typing import Any, Final, NamedTuple

from translation.decoding.usage_counts import read_count
from translation.representation.json_types import Json

_WINDOW: Final = ".context_length"

_NUM_CTX: Final = re.compile(r"^num_ctx\s+([1-9][0-9]{0,8})\s*$", re.MULTILINE)


class Shown(NamedTuple):
    """Facts about one model; `None` where a server does not tell them."""

    window: int | None
    """How long its context is where a request does not say: its own option `num_ctx`, and all of it in the cloud. Any
    other has as much as its server gives to every model, which nothing tells."""
    longest: int | None
    """The longest context that it was made for; asked for more, it has this much."""
    abilities: frozenset[str] | None
    """`completion`, `tools`, `thinking`, `vision`, `embedding`, …"""

    def can(self, ability: str) -> bool | None:
        """`None` where nothing is known."""
        return None if self.abilities is None else ability in self.abilities

    def window_of(self, num_ctx: object) -> int | None:
        """How long its context is for a request with this option."""
        asked = read_count(num_ctx) or self.window
        return asked if asked is None or self.longest is None else min(asked, self.longest)


def read_shown(answer: Json) -> Shown:
    """The facts in an answer of `POST /api/show`."""
    told = answer.get("capabilities")
    abilities = frozenset(each for each in told if isinstance(each, str)) if isinstance(told, list) else None
    longest = _context_length(answer.get("model_info"))
    window = longest if answer.get("remote_host") else _num_ctx(answer.get("parameters"))
    return Shown(window, longest, abilities)


def _num_ctx(parameters: Any) -> int | None:
    """The parameters of a model are a text: a name and a value on each line."""
    found = _NUM_CTX.search(parameters) if isinstance(parameters, str) else None
    return int(found[1]) if found else None


def _context_length(facts: Any) -> int | None:
    """The key begins with the architecture, which is the first of the facts."""
    if not isinstance(facts, dict):
        return None
    architecture = facts.get("general.architecture")
    keys = [f"{architecture}{_WINDOW}", *(key for key in facts if key.endswith(_WINDOW))]
    return next((count for key in keys if (count := read_count(facts.get(key)))), None)
