"""What is done about the calls of a reply that is relayed."""

from dataclasses import dataclass
from typing import Final

from translation.representation.json_types import Json
from translation.tools.arguments import MAX_BYTES, fault_in
from translation.tools.call_ids import CallIds


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRules:
    """How one reply's calls are to be."""

    taken: frozenset[str] = frozenset()
    """Ids of calls before this reply, which none of its own gets."""
    renames: bool = True
    """False where the upstream keeps the reply itself, and is told later of its calls by the ids it gave them."""
    max_args_bytes: int = MAX_BYTES

    def ids(self) -> "CallIds | KeptIds":
        """What gives the calls of one reply their ids."""
        return CallIds(self.taken) if self.renames else KeptIds()

    def warning(self, name: str, arguments: str) -> Json | None:
        """What is to be told of a call that no client can read; None where one can."""
        why = fault_in(arguments, self.max_args_bytes)
        return None if why is None else {"name": name, "why": why}


class KeptIds:
    """Leaves ids as they are."""

    def take(self, said: str | None) -> str:
        return said or ""


DEFAULT_RULES: Final = CallRules()
