"""What is done about the calls of a reply that is relayed."""

from dataclasses import dataclass
from typing import Final

from translation.representation.json_types import Json
from translation.tools.arguments import DEFAULT_MAX_ARGS_BYTES, arguments_fault
from translation.tools.call_ids import CallIdAllocator


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRules:
    """How one reply's calls are to be."""

    used_ids: frozenset[str] = frozenset()
    """Ids of calls before this reply, which none of its own gets."""
    renames_ids: bool = True
    """False where the upstream keeps the reply itself, and is told later of its calls by the ids it gave them."""
    max_args_bytes: int = DEFAULT_MAX_ARGS_BYTES

    def id_allocator(self) -> "CallIdAllocator | UnchangedCallIds":
        """What gives the calls of one reply their ids."""
        return CallIdAllocator(self.used_ids) if self.renames_ids else UnchangedCallIds()

    def warning_for(self, name: str, arguments: str) -> Json | None:
        """What is to be told of a call that no client can read; None where one can."""
        why = arguments_fault(arguments, self.max_args_bytes)
        return None if why is None else {"name": name, "why": why}


class UnchangedCallIds:
    """Leaves ids as they are."""

    def claim(self, upstream_id: str | None) -> str:
        return upstream_id or ""


DEFAULT_RULES: Final = CallRules()
