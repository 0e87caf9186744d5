"""The rules for the calls of a reply that is relayed."""

from dataclasses import dataclass
from typing import Final

from translation.representation.json_types import Json
from translation.tools.arguments import DEFAULT_MAX_ARGS_BYTES, find_arguments_fault
from translation.tools.call_ids import CallIdAllocator


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRules:
    """The rules for the calls of one reply."""

    used_ids: frozenset[str] = frozenset()
    """The ids of earlier calls. No call of this reply gets one of them."""
    renames_ids: bool = True
    """Whether calls get new ids where ids repeat. False if the upstream stores the reply, because later requests must
    name its calls by the ids that it gave them."""
    max_args_bytes: int = DEFAULT_MAX_ARGS_BYTES
    """The longest arguments without a warning, in bytes."""

    def create_id_allocator(self) -> "CallIdAllocator | UnchangedCallIds":
        """Returns the allocator of ids for the calls of one reply."""
        return CallIdAllocator(self.used_ids) if self.renames_ids else UnchangedCallIds()

    def build_warning(self, name: str, arguments: str) -> Json | None:
        """Returns the warning `{name, why}` for a call whose arguments cannot be used; None if they can be."""
        fault = find_arguments_fault(arguments, self.max_args_bytes)
        return None if fault is None else {"name": name, "why": fault}


class UnchangedCallIds:
    """An allocator with the interface of CallIdAllocator, which returns every id unchanged."""

    def claim(self, upstream_id: str | None) -> str:
        return upstream_id or ""


DEFAULT_RULES: Final = CallRules()
