"""What Ollama shows of a model, as far as it decides how a request is answered."""

import re
from typing import Any, Final, NamedTuple

from translation.counts import read_count
from translation.json_types import Json

_WINDOW: Final = ".context_length"

_NUM_CTX: Final = re.compile(r"^num_ctx\s+([1-9][0-9]{0,8})\s*$", re.MULTILINE)


class Shown(NamedTuple):
    """Facts about one model; `None` where a server does not tell them."""

    window: int | None
    """How long its context is: its own option `num_ctx`, else the longest that it was made for. A server that is short
    of memory may give it less."""
    abilities: frozenset[str] | None
    """`completion`, `tools`, `thinking`, `vision`, `embedding`, …"""

    def can(self, ability: str) -> bool | None:
        """`None` where nothing is known."""
        return None if self.abilities is None else ability in self.abilities


def read_shown(answer: Json) -> Shown:
    """The facts in an answer of `POST /api/show`."""
    told = answer.get("capabilities")
    abilities = frozenset(each for each in told if isinstance(each, str)) if isinstance(told, list) else None
    return Shown(_num_ctx(answer.get("parameters")) or _context_length(answer.get("model_info")), abilities)


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
