"""Reads the choices of a relayed stream of chunks, and normalizes their deltas for the client."""

from typing import Final, NamedTuple

from translation.chat import reply_objects
from translation.chat.relaying.calls import CallNormalizer
from translation.chat.relaying.reasoning_mover import ReasoningMover
from translation.chat.relaying.thoughts import ThoughtSplitter, build_splitter
from translation.errors import ProtocolViolation
from translation.hygiene.call_tracker import CallRules
from translation.representation.events import CUT_OFF_REASONS, FinishReason
from translation.representation.json_types import Json
from translation.representation.profile import DEFAULT_PROFILE, Profile

_TEXT_KEYS: Final = ("content", "refusal", "role")
_NUMBERS: Final = (int, float)

_UNCHANGED_KEYS: Final = frozenset({"role", "content", "refusal"})
"""Keys of a delta that are forwarded unchanged, unless the content is a list."""


class ChunkForm(NamedTuple):
    """What a client expects of the chunks of a relayed stream."""

    reasoning_fields: frozenset[str]
    """The fields in which it reads reasoning."""
    include_usage: bool = False
    """Whether it wants the chunk with nothing but usage. It is dropped otherwise: the upstream is always asked for it.
    """
    choice_count: int = 1
    """The stream is complete once so many choices have a finish reason."""
    legacy_functions: bool = False
    """Whether it sent `functions`, and expects `function_call`."""
    profile: Profile = DEFAULT_PROFILE
    """The profile of the model, which says whether the text may begin with thinking."""


class ChoiceReader:
    """The choices of one stream: their calls, and which of them have ended."""

    def __init__(self, reasoning: ReasoningMover, form: ChunkForm, rules: CallRules) -> None:
        self.has_content = False
        """Whether a choice had content, or a regular end."""
        self.is_filtered = False
        """Whether a content filter ended the first choice before it had content."""
        self.finish_reason: FinishReason | None = None
        """Why the first choice ended, or, if one was cut off, why that one."""
        self.may_forward = False
        """Whether there was content, and no text of a choice may still be thinking."""
        self.finished: set[int] = set()
        """The indexes of the choices with a finish reason."""
        self.warnings: list[Json] = []
        """Entries for `tool_warnings`: the invalid calls of those choices."""
        self._reasoning = reasoning
        self._form = form
        self._rules = rules
        self._calls: dict[int, CallNormalizer] = {}
        self._splits_thoughts = build_splitter(form.profile, reasoning.text_fields[1]) is not None
        self._splitters: dict[int, ThoughtSplitter] = {}

    def read_choice(self, choice: Json) -> bool:
        """Reads and normalizes a choice in place. Returns whether it was changed."""
        delta = choice.get("delta")
        index = choice.get("index") or 0
        if not isinstance(index, int):
            raise ProtocolViolation("the index of a choice in the upstream's stream is not a number")
        changed = False
        if isinstance(delta, dict):
            changed = _require_texts(delta)
            for key in () if self.has_content else delta:
                if key in self._reasoning.content_keys and delta[key]:
                    self.has_content = True
                    break
            if self._splits_thoughts and index not in self.finished:
                changed |= self._split_thoughts(index, delta, is_last=bool(choice.get("finish_reason")))
            if not _UNCHANGED_KEYS.issuperset(delta) or isinstance(delta.get("content"), list):
                changed |= (
                    self._reasoning.flatten_content(delta)
                    | self._reasoning.move(delta)
                    | self._normalize_calls(index, delta)
                )
        elif delta:
            raise ProtocolViolation("a delta of the upstream's stream is not a JSON object")
        if choice.get("finish_reason"):
            if index not in self.finished:
                self.finished.add(index)
                if not self.has_content:
                    self.is_filtered = reply_objects.is_filter_reason(choice["finish_reason"])
                self.has_content = True
                reason = reply_objects.read_finish_reason(choice["finish_reason"], called=index in self._calls)
                if self.finish_reason is None or reason in CUT_OFF_REASONS:
                    self.finish_reason = reason
                if index in self._calls:
                    changed |= self._complete_calls(index, choice)
            else:
                # Clients take the last reason for that of the choice, or end with the first.
                choice["finish_reason"] = None
                return True
            changed |= reply_objects.normalize_finish_reason(
                choice, called=index in self._calls, legacy=self._form.legacy_functions
            )
        if self.has_content and not self.may_forward:
            self.may_forward = not self._splits_thoughts
        return changed

    def build_unsent_calls(self) -> Json:
        """Returns the delta with the arguments that are still buffered when the first choice fails."""
        entries = self._calls[0].build_last_entries(cut=True) if 0 in self._calls and 0 not in self.finished else []
        return {"tool_calls": entries} if entries else {}

    def _split_thoughts(self, index: int, delta: Json, *, is_last: bool) -> bool:
        """Separates the thinking in the text of a delta, in place. Returns whether it was changed."""
        splitter = self._splitters.get(index)
        if splitter is None:
            splitter = self._splitters[index] = ThoughtSplitter(self._form.profile, self._reasoning.text_fields[1])
        changed = self._reasoning.flatten_content(delta) | splitter.split(delta, is_last=is_last)
        if len(self._splitters) >= self._form.choice_count and all(each.is_over for each in self._splitters.values()):
            self._splits_thoughts = False
        return changed

    def _normalize_calls(self, index: int, delta: Json) -> bool:
        if not (delta.get("tool_calls") or delta.get("function_call")):
            return False
        if index not in self._calls:
            self._calls[index] = CallNormalizer(self._rules, legacy=self._form.legacy_functions)
        return self._calls[index].normalize_delta(delta)

    def _complete_calls(self, index: int, choice: Json) -> bool:
        """Adds the last entries of its calls to a choice that ends, and collects their warnings.

        Returns whether there were any.
        """
        entries = self._calls[index].build_last_entries(cut=str(choice["finish_reason"]) in reply_objects.CUT_REASONS)
        self.warnings += self._calls[index].warnings
        if entries:
            delta: Json = choice.get("delta") or {}
            choice["delta"] = {**delta, "tool_calls": [*(delta.get("tool_calls") or ()), *entries]}
        return bool(entries) or bool(self._calls[index].warnings)


def _require_texts(delta: Json) -> bool:
    """Makes a number in place of a text one, in place. Returns whether there was one.

    Raises ProtocolViolation for other values, which no client of chat reads: it would get less than the model's answer.
    """
    changed = False
    for key in _TEXT_KEYS:
        value = delta.get(key)
        if value is None or type(value) is str or (key == "content" and type(value) is list):
            continue
        if type(value) not in _NUMBERS or key == "role":
            raise ProtocolViolation(f"the upstream sent a delta whose `{key}` is no text")
        delta[key] = str(value)
        changed = True
    return changed
