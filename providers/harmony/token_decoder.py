"""Decodes gpt-oss's tokens to events: its analysis to reasoning, its calls to calls, its final answer to a message."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from providers.harmony.encoding import Encoding
from providers.harmony.token_repair import TokenRepairer
from translation.hygiene.stop_sequences import StopStrings
from translation.representation.events import Event, ItemStatus
from translation.representation.item_writer import ItemWriter
from translation.representation.items import NewId
from translation.representation.profile import Profile

_FUNCTIONS: Final = "functions."

_NO_NAMES: Final[Mapping[str, str]] = {}

_REPLACEMENT_CHARACTER: Final = "\ufffd"
"""The character that the encoding decodes invalid bytes to."""


class HarmonyTokenDecoder:
    """Decodes one turn of the assistant. `prefill` is the part of the turn that is already in the prompt.

    `trained_names` has the functions that stand for tools which the model knows from its training.
    Special tokens never become text. Once `ended`, later tokens do not belong to the turn.
    """

    def __init__(
        self,
        encoding: Encoding,
        new_id: NewId,
        profile: Profile,
        prefill: Sequence[int] = (),
        stop: Sequence[str] = (),
        trained_names: Mapping[str, str] = _NO_NAMES,
    ) -> None:
        self.reasoning_tokens = 0
        """Tokens of the thinking, without the control tokens around it."""
        self.has_called = False
        self._encoding = encoding
        self._thought_channel = "summary" if profile.reasoning_part == "summary_text" else "reasoning"
        self._repairer = TokenRepairer(encoding)
        self._parser = _new_parser(encoding)
        self._functions = {trained_name: name for name, trained_name in trained_names.items()}
        self._new_id = new_id
        self._writer = ItemWriter(new_id)
        self._stop_strings = StopStrings(stop)
        self._call: int | None = None
        self._has_arguments = False
        self._has_output = False
        self._calls = 0
        for token in prefill:
            for repaired_token in self._repairer.feed(token):
                self._parser.process(repaired_token)
        self._repairer.begin_reply()

    @property
    def ended(self) -> bool:
        return self._repairer.ended or self.stop_string is not None

    @property
    def stop_string(self) -> str | None:
        """The stop string that ended the answer, if one did."""
        return self._stop_strings.met

    @property
    def has_lost_message(self) -> bool:
        """Whether the model began a message but wrote none. Such a reply is an error and not an empty answer."""
        return self._repairer.has_lost_message and not self._has_output

    def feed(self, token: int) -> list[Event]:
        """Adds a token and returns its events."""
        return [] if self.ended else self._parse_tokens(self._repairer.feed(token))

    def finish(self, status: ItemStatus) -> list[Event]:
        """Ends the turn and returns the last events. `status` is the status of the last item: `incomplete` if it was
        cut."""
        events = [] if self.stop_string is not None else self._parse_tokens(self._repairer.finish())
        if rest := self._stop_strings.finish():
            events += self._writer.write_block("text", rest)
        if self._call is not None and status == "completed":
            events += self._end_call()
        closed = self._writer.close(status)
        self._has_output = self._has_output or bool(events or closed)
        return [*events, *closed]

    def _parse_tokens(self, tokens: Sequence[int]) -> list[Event]:
        events: list[Event] = []
        control_tokens = self._encoding.control_tokens
        for token in tokens:
            if self.stop_string is not None:
                break
            reported = self._parser.current_content if token == control_tokens.end else ""
            self._parser.process(token)
            if token == control_tokens.message:
                events += self._begin_message()
            elif token == control_tokens.end:
                if _REPLACEMENT_CHARACTER in reported and (rest := self._unreported_tail(reported)):
                    events += self._write_text(rest)
                events += self._end_message()
            elif text := self._parser.last_content_delta:
                events += self._write_text(text)
            if self._parser.current_channel == "analysis" and not self._encoding.is_special(token):
                self.reasoning_tokens += self._call is None
        self._has_output = self._has_output or bool(events)
        return events

    def _begin_message(self) -> list[Event]:
        recipient = self._parser.current_recipient or ""
        name = self._functions.get(recipient) or recipient.removeprefix(_FUNCTIONS)
        if not name or name == "assistant":
            return []
        self._calls += 1
        self._call, self._has_arguments, self.has_called = self._calls, False, True
        return self._writer.open_call(self._call, name=name, call_id=self._new_id("call"))

    def _unreported_tail(self, reported: str) -> str:
        """Returns the end of the message that has just ended, after `reported`. After an incomplete character the
        parser reports each token only with the next one."""
        text = "".join(part.text for part in self._parser.messages[-1].content)
        return text[len(reported) :]

    def _write_text(self, text: str) -> list[Event]:
        if self._call is not None:
            self._has_arguments = True
            return self._writer.write_arguments(self._call, text)
        if self._parser.current_channel == "analysis":
            return self._writer.write_block(self._thought_channel, text)
        text = self._stop_strings.feed(text)
        return self._writer.write_block("text", text) if text else []

    def _end_message(self) -> list[Event]:
        if self._call is not None:
            return self._end_call()
        rest = self._stop_strings.finish()
        return [*(self._writer.write_block("text", rest) if rest else ()), *self._writer.close_block()]

    def _end_call(self) -> list[Event]:
        call, self._call = self._call, None
        events = [] if self._has_arguments else self._writer.write_arguments(call, "{}")
        return [*events, *self._writer.close_call(call)]


def _new_parser(encoding: Encoding) -> Any:
    from openai_harmony import Role, StreamableParser

    return StreamableParser(encoding.library, Role.ASSISTANT, strict=False)
