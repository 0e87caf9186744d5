"""Tracks the calls of one reply: their unique ids, arguments that may be in a code fence, and warnings about them.

It knows no dialect. The stage of translated replies and the relays of two dialects write their calls by it.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from translation.representation.json_types import Json
from translation.tools.arguments import DEFAULT_MAX_ARGS_BYTES, find_arguments_fault, strip_code_fence
from translation.tools.call_ids import CallIdAllocator


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRules:
    """The rules for the calls of one reply."""

    used_ids: Collection[str] = frozenset()
    """The ids of earlier calls. No call of this reply gets one of them."""
    renames_ids: bool = True
    """Whether calls get new ids where ids repeat. False if the upstream stores the reply, because later requests must
    name its calls by the ids that it gave them."""
    max_args_bytes: int = DEFAULT_MAX_ARGS_BYTES
    """The longest arguments without a warning, in bytes."""


DEFAULT_RULES: Final = CallRules()


@dataclass(slots=True, eq=False)
class TrackedCall:
    """One call, whose arguments arrive in pieces."""

    upstream_id: object
    """The upstream's id of the call."""
    id: str
    """The id that the client gets."""
    name: str
    is_json: bool = True
    """Whether its arguments are JSON, which is examined. The input of custom tools is not."""
    texts: list[str] = field(default_factory=list)
    """The pieces of its arguments so far. Once they are released, those that the client got."""
    is_held: bool | None = None
    """Whether the arguments are held back, because they may be JSON in a code fence. None until they begin."""
    held_texts: list[str] = field(default_factory=list)
    """The last of `texts`, which were not sent to the client yet."""

    def add_text(self, text: str, *, holds_blanks: bool = False) -> str:
        """Takes a piece of the arguments. Returns the text that can be sent at once, possibly none.

        `holds_blanks`: white space before the arguments waits for them.
        """
        self.texts.append(text)
        if self.is_held is None and (begun := text.lstrip()):
            self.is_held = begun.startswith("`")
        if self.is_held or (self.is_held is None and holds_blanks):
            self.held_texts.append(text)
            return ""
        if self.held_texts:
            text = "".join(self.held_texts) + text
            self.held_texts.clear()
        return text

    def release(self) -> str:
        """Returns the text that was held back, without its code fence. Later pieces are sent as they come."""
        self.is_held = False
        if not self.held_texts:
            return ""
        released = strip_code_fence("".join(self.held_texts))
        self.texts[-len(self.held_texts) :] = [released]
        self.held_texts.clear()
        return released


class ReplyCallTracker:
    """Tracks the calls of one reply by `rules`."""

    def __init__(self, rules: CallRules = DEFAULT_RULES) -> None:
        self.warnings: list[Json] = []
        """Entries for `tool_warnings`: complete calls that break a rule."""
        self._max_args_bytes = rules.max_args_bytes
        self._ids = CallIdAllocator(rules.used_ids) if rules.renames_ids else None

    def claim_id(self, upstream_id: str | None) -> str:
        """Returns the id of a call for the client: a unique one, unless ids are not renamed."""
        return self._ids.claim(upstream_id) if self._ids is not None else upstream_id or ""

    def start_call(self, upstream_id: object, name: str, *, is_json: bool = True) -> TrackedCall:
        """Returns a new call, with an id for the client."""
        return TrackedCall(upstream_id, self.claim_id(str(upstream_id or "") or None), name, is_json)

    def check_arguments(self, name: str, arguments: str) -> bool:
        """Adds a warning about a complete call whose arguments cannot be used. Returns whether they can be."""
        fault = find_arguments_fault(arguments, self._max_args_bytes)
        if fault is not None:
            self.warnings.append({"name": name, "why": fault})
        return fault is None
