"""What Ollama shows of a model, as far as it decides how a request is answered."""

from typing import Any, Final, NamedTuple

from translation.counts import read_count
from translation.json_types import Json

_WINDOW: Final = ".context_length"


class Shown(NamedTuple):
    """Facts about one model; `None` where a server does not tell them."""

    context_length: int | None
    """The longest context it was made for. What the server gives it may be less: that is the option `num_ctx`."""
    abilities: frozenset[str] | None
    """`completion`, `tools`, `thinking`, `vision`, `embedding`, …"""

    def can(self, ability: str) -> bool | None:
        """`None` where nothing is known."""
        return None if self.abilities is None else ability in self.abilities


def read_shown(answer: Json) -> Shown:
    """The facts in an answer of `POST /api/show`."""
    told = answer.get("capabilities")
    abilities = frozenset(each for each in told if isinstance(each, str)) if isinstance(told, list) else None
    return Shown(_context_length(answer.get("model_info")), abilities)


def _context_length(facts: Any) -> int | None:
    """The key begins with the architecture, which is the first of the facts."""
    if not isinstance(facts, dict):
        return None
    architecture = facts.get("general.architecture")
    keys = [f"{architecture}{_WINDOW}", *(key for key in facts if key.endswith(_WINDOW))]
    return next((count for key in keys if (count := read_count(facts.get(key)))), None)
