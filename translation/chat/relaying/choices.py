"""Reads the choices of a relayed stream of chunks, and normalizes their deltas for the client."""

from collections.abc import Sequence
from typing import NamedTuple

from translation.chat import reply_objects
from translation.chat.final_message import StreamedMessage, join_texts
from translation.chat.odd_deltas import UNCHANGED_KEYS, make_thoughts_texts, require_own_text, require_texts
from translation.chat.relaying.calls import CallNormalizer
from translation.chat.relaying.reasoning_mover import ReasoningMover
from translation.chat.relaying.thoughts import ThoughtSplitter, build_splitter
from translation.errors import ProtocolViolation
from translation.hygiene.call_tracker import CallRules
from translation.representation.events import CUT_OFF_REASONS, NATIVE_REASON, FinishReason
from translation.representation.json_types import Json
from translation.representation.loss import FINAL_TEXT, LOSSES, OTHER_CHOICE, render_reply_losses
from translation.representation.profile import DEFAULT_PROFILE, Profile


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
        """Why the first choice ended, or, if one was cut off, why the last that was."""
        self.may_forward = False
        """Whether a choice was read, no text of it may be thinking, and no whole message is ahead of its deltas."""
        self.finished: dict[int, FinishReason] = {}
        """Index of each choice with a finish reason -> the last that the client got."""
        self.warnings: list[Json] = []
        """Entries for `tool_warnings`: the invalid calls of those choices."""
        self._reasoning = reasoning
        self._form = form
        self._rules = rules
        self._calls: dict[int, CallNormalizer] = {}
        self._splits_thoughts = build_splitter(form.profile, reasoning.text_fields[1]) is not None
        self._splitters: dict[int, ThoughtSplitter] = {}
        self._streamed: dict[int, StreamedMessage] = {}
        """What the deltas of each choice held so far."""
        self.unreported: Sequence[str] = ()
        """What the client does not get of the choices, by the names that losses have for it."""

    def is_requested(self, choice: Json) -> bool:
        """Returns whether the client requested a choice with this index. Others would be read as a part of its own, so
        they are noted as what it does not get.

        Raises ProtocolViolation for an index that is no number.
        """
        index = choice.get("index") or 0
        if type(index) is not int:
            raise ProtocolViolation("the index of a choice in the upstream's stream is not a number")
        if 0 <= index < self._form.choice_count:
            return True
        self._note_unreported(OTHER_CHOICE)
        return False

    def read_choice(self, choice: Json) -> bool:
        """Reads and normalizes a choice in place. Returns whether it was changed."""
        delta = choice.get("delta")
        index = choice.get("index") or 0
        if not delta or not isinstance(delta, dict):
            require_own_text(choice, {})
        elif "text" in delta:
            require_own_text(choice, delta)
        changed = not delta and delta != {}
        if changed:  # clients read the fields of the delta of each choice
            delta = choice["delta"] = {}
        streamed = self.find_streamed(index)
        if delta and isinstance(delta, dict):
            changed |= require_texts(delta)
            if not UNCHANGED_KEYS.issuperset(delta):
                changed |= make_thoughts_texts(delta, self._reasoning.text_fields[1:])
            streamed.add(delta)
        ends = bool(choice.get("finish_reason")) or index in self.finished
        if "message" in choice or streamed.final_message is not None:
            changed |= self._add_missing_texts(streamed, choice, is_last=ends)
            delta = choice.get("delta")
        if isinstance(delta, dict):
            if not self.has_content:
                self._note_content(delta)
            if self._splits_thoughts and index not in self.finished:
                changed |= self._split_thoughts(index, delta, is_last=bool(choice.get("finish_reason")))
            if not UNCHANGED_KEYS.issuperset(delta) or isinstance(delta.get("content"), list):
                changed |= (
                    self._reasoning.flatten_content(delta)
                    | self._reasoning.move(delta)
                    | self._normalize_calls(index, delta)
                )
            if ends and (message := streamed.final_message) is not None:
                streamed.final_message = None
                changed |= self._add_missing_calls(index, delta, message)
        else:
            raise ProtocolViolation("a delta of the upstream's stream is not a JSON object")
        if choice.get("finish_reason"):
            reason = reply_objects.read_finish_reason(choice["finish_reason"], called=index in self._calls)
            sent_reason = self.finished.get(index)
            if sent_reason is not None and (reason == sent_reason or reason not in CUT_OFF_REASONS):
                # Clients take the last reason for that of the choice, or end with the first, or join them as texts.
                # Only one that says that the answer was cut off is news, and only once.
                choice["finish_reason"] = None
                choice.pop(NATIVE_REASON, None)
                return True
            self.finished[index] = reason
            if self.finish_reason is None or reason in CUT_OFF_REASONS:
                self.finish_reason = reason
            if sent_reason is None:
                if not self.has_content:
                    self.is_filtered = reply_objects.is_filter_reason(choice["finish_reason"])
                self.has_content = True
                if index in self._calls:
                    changed |= self._complete_calls(index, choice)
            if streamed.has_other_form:
                self._note_unreported(FINAL_TEXT)
            if self.unreported:
                choice[LOSSES] = render_reply_losses(self.unreported)
                changed = True
            changed |= reply_objects.normalize_finish_reason(
                choice, called=index in self._calls, legacy=self._form.legacy_functions
            )
        self.may_forward = not self._splits_thoughts and streamed.final_message is None
        return changed

    def note_forwarded(self, delta: Json) -> None:
        """Notes a delta of the first choice that is forwarded unread."""
        self.find_streamed(0).add(delta)
        if not self.has_content:
            self._note_content(delta)

    def _note_content(self, delta: Json) -> None:
        content_keys = self._reasoning.content_keys
        for key, value in delta.items():
            if value and key in content_keys:
                self.has_content = True
                return

    def _note_unreported(self, name: str) -> None:
        if name not in self.unreported:
            self.unreported = (*self.unreported, name)

    def find_streamed(self, index: int) -> StreamedMessage:
        """Returns what the deltas of a choice held so far."""
        if (streamed := self._streamed.get(index)) is None:
            separates_thoughts = build_splitter(self._form.profile, self._reasoning.text_fields[1]) is not None
            streamed = self._streamed[index] = StreamedMessage(
                self._reasoning.text_fields[1:], separates_thoughts=separates_thoughts
            )
        return streamed

    def _add_missing_texts(self, streamed: StreamedMessage, choice: Json, *, is_last: bool) -> bool:
        """Adds what a whole message beside the deltas has beyond them to the delta of a choice that ends, in place.

        The client reads deltas only, so the message itself is left out. Returns whether the choice was changed. Raises
        ProtocolViolation if the message has another text.
        """
        delta: Json = choice.get("delta") or {}
        changed = "message" in choice
        streamed.note_message(choice.pop("message", None), delta, is_last=is_last)
        if not is_last or (message := streamed.final_message) is None:
            return changed
        missing = streamed.build_missing_delta(message)
        if self._form.legacy_functions:
            missing |= streamed.build_missing_function_call(message.get("function_call"))
        choice["delta"] = join_texts(delta, missing)
        streamed.add(missing)
        if streamed.has_other_form and not choice.get("finish_reason"):
            self._note_unreported(FINAL_TEXT)
            choice[LOSSES] = render_reply_losses(self.unreported)
        return changed or bool(missing)

    def _add_missing_calls(self, index: int, delta: Json, message: Json) -> bool:
        """Adds what the calls of a whole message have beyond the deltas to the last of these, in place.

        Returns whether there was anything. Raises ProtocolViolation if the message has other calls.
        """
        listed = message.get("tool_calls")
        if not listed and not self._form.legacy_functions:
            listed = message.get("function_call")
        if not listed:
            return False
        if index not in self._calls:
            self._calls[index] = CallNormalizer(self._rules, legacy=self._form.legacy_functions)
        before = delta.get("tool_calls")
        self._calls[index].complete_delta(delta, listed)
        is_changed = delta.get("tool_calls") is not before
        if is_changed and index in self.finished:
            raise ProtocolViolation("the upstream sent tool calls after its finish reason")
        return is_changed

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
        if index in self.finished:
            raise ProtocolViolation("the upstream sent tool calls after its finish reason")
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
