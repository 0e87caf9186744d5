"""Tokens to events: what gpt-oss thinks is reasoning, what it calls are calls, what it says at last is a message."""

from collections.abc import Sequence
from typing import Any, Final

from providers.harmony.encoding import Encoding
from providers.harmony.token_repair import TokenRepairer
from translation.representation.events import Event, ItemStatus
from translation.representation.item_writer import ItemWriter
from translation.representation.items import NewId
from translation.representation.profile import Profile

_FUNCTIONS: Final = "functions."

_REPLACEMENT_CHARACTER: Final = "\ufffd"
"""What bytes that are no character come out as."""


class HarmonyTokenDecoder:
    """One turn of the assistant, after `primed`, what it has said of it already. Feed it tokens.

    No special token comes out as text. `over` says that what follows belongs to the turn no more.
    """

    def __init__(
        self, encoding: Encoding, new_id: NewId, profile: Profile, prefill: Sequence[int] = (), stop: Sequence[str] = ()
    ) -> None:
        self.reasoning_tokens = 0
        """Tokens of thoughts, without the marks around them."""
        self.has_called = False
        self._encoding = encoding
        self._thought_channel = "summary" if profile.reasoning_part == "summary_text" else "reasoning"
        self._repairer = TokenRepairer(encoding)
        self._parser = _new_parser(encoding)
        self._new_id = new_id
        self._writer = ItemWriter(new_id)
        self._stop_strings = StopStrings(stop)
        self._call: int | None = None
        self._has_arguments = False
        self._has_output = False
        self._calls = 0
        for token in prefill:
            for mended in self._repairer.feed(token):
                self._parser.process(mended)
        self._repairer.begin_reply()

    @property
    def ended(self) -> bool:
        return self._repairer.ended or self._stop_strings.met

    @property
    def has_lost_message(self) -> bool:
        """The model began a message and never wrote one: that is no answer, not even an empty one."""
        return self._repairer.has_lost_message and not self._has_output

    def feed(self, token: int) -> list[Event]:
        return [] if self.ended else self._parse_tokens(self._repairer.feed(token))

    def finish(self, status: ItemStatus) -> list[Event]:
        """No more is coming; `incomplete`: the last item was cut."""
        events = [] if self._stop_strings.met else self._parse_tokens(self._repairer.finish())
        if rest := self._stop_strings.finish():
            events += self._writer.write_block("text", rest)
        if self._call is not None and status == "completed":
            events += self._end_call()
        closed = self._writer.close(status)
        self._has_output = self._has_output or bool(events or closed)
        return [*events, *closed]

    def _parse_tokens(self, tokens: Sequence[int]) -> list[Event]:
        events: list[Event] = []
        marks = self._encoding.control_tokens
        for token in tokens:
            if self._stop_strings.met:
                break
            reported = self._parser.current_content if token == marks.end else ""
            self._parser.process(token)
            if token == marks.message:
                events += self._begin_message()
            elif token == marks.end:
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
        name = (self._parser.current_recipient or "").removeprefix(_FUNCTIONS)
        if not name or name == "assistant":
            return []
        self._calls += 1
        self._call, self._has_arguments, self.has_called = self._calls, False, True
        return self._writer.open_call(self._call, name=name, call_id=self._new_id("call"))

    def _unreported_tail(self, reported: str) -> str:
        """The end of the message that is over. Behind half a character the parser tells each token with the next."""
        whole = "".join(part.text for part in self._parser.messages[-1].content)
        return whole[len(reported) :]

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


class StopStrings:
    """Text up to the one of some strings that is whole first. What could be the beginning of one is held back."""

    def __init__(self, stop: Sequence[str]) -> None:
        self.met = False
        self._stop = tuple(filter(None, stop))
        self._held = ""

    def feed(self, text: str) -> str:
        """More of the text; what of it is certain."""
        if not self._stop or self.met:
            return "" if self.met else text
        text, self._held = self._held + text, ""
        found = [(place + len(each), place) for each in self._stop if (place := text.find(each)) >= 0]
        if found:
            self.met = True
            return text[: min(found)[1]]
        held = max(
            (n for each in self._stop for n in range(1, min(len(each), len(text) + 1)) if text.endswith(each[:n])),
            default=0,
        )
        self._held = text[len(text) - held :]
        return text[: len(text) - held]

    def finish(self) -> str:
        """What was held back is no stop string."""
        held, self._held = self._held, ""
        return held


def _new_parser(encoding: Encoding) -> Any:
    from openai_harmony import Role, StreamableParser

    return StreamableParser(encoding.library, Role.ASSISTANT, strict=False)
