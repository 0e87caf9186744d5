"""Decodes the text of an answer into items: messages and tool calls."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, assert_never

from translation.parsers.tools import PARSER_FACTORIES
from translation.parsers.tools.parser_output import (
    BlankFilter,
    CallArguments,
    CallEnded,
    CallStarted,
    MalformedCall,
    ParserOutput,
    PlainText,
    ToolParser,
)
from translation.representation.events import Event, Noted
from translation.representation.item_writer import ItemWriter
from translation.representation.items import NewId
from translation.representation.json_types import Json
from translation.representation.profile import Profile
from translation.tools.call_ids import check_call_count
from translation.tools.call_validator import UNKNOWN_TOOL_FAULT, CallValidator

CALL_PARSE_ERROR: Final = "tool_call_parse_error"
"""The code of the failure of a turn with a call that the format of the reply cannot represent."""

TOOL_WARNINGS: Final = "tool_warnings"
"""The fact in `Noted` that lists invalid calls, each as `{name, why}`."""


class RejectedCall(NamedTuple):
    """An invalid call. It is left out, or with the validation `report` sent.

    `name` is empty if the call has none. `why` is for people. Both are keys of the wire format.
    """

    name: str
    why: str


@dataclass(slots=True, eq=False)
class _Call:
    name: str
    is_open: bool = False
    """Whether its beginning is in the events."""
    fault: str = ""
    """The reason why it is invalid, if that is known before its end."""
    texts: list[str] = field(default_factory=list)
    """The arguments so far. They are dropped once the call has a fault."""
    bytes: int = 0


class TextCallDecoder:
    """Decodes the text of one answer into events, through an ItemWriter. Text around calls becomes messages.

    `tools` are those of the turn, in the form of chat or of Responses. With the validation `drop` an invalid call is
    left out, so the events of a call are returned when it is complete and valid. With `report` every call that can be
    parsed is sent, and its arguments are returned as they arrive. Both collect invalid calls in `rejected`; an invalid
    call never ends the turn. The events do not depend on whether the reply is streamed.
    """

    def __init__(
        self,
        writer: ItemWriter,
        new_id: NewId,
        new_parser: Callable[[], ToolParser],
        tools: Sequence[Json],
        *,
        validation: Literal["drop", "report"] = "drop",
        max_args_bytes: int = 200_000,
    ) -> None:
        self.has_calls = False
        """Whether any call was started in the events."""
        self.rejected: list[RejectedCall] = []
        """The invalid calls, in order."""
        self._writer = writer
        self._new_id = new_id
        self._new_parser = new_parser
        self._parser = new_parser()
        self._validator = CallValidator(tools, max_args_bytes)
        self._reports = validation == "report"
        self._blanks = BlankFilter()
        self._open_calls: list[_Call] = []
        """The call that has begun and not ended: parsers begin the next one after its end."""
        self._truncated = False
        self._call_count = 0

    def feed(self, text: str) -> list[Event]:
        """Adds text."""
        return self._write_all(self._parser.feed(text))

    def interrupt(self) -> list[Event]:
        """Ends the text so far, because other output follows it: no tag or call goes on after that."""
        parser, self._parser = self._parser, self._new_parser()
        return self._write_all(parser.finish())

    def finish(self, *, truncated: bool) -> list[Event]:
        """Ends the text. `truncated`: it was cut at the limit of tokens.

        A call that was cut by that limit is sent and ends as `incomplete`, as calls do that upstreams report
        themselves. A call that the model did not finish for another reason is rejected. The rejected calls are in a
        last `Noted`.
        """
        self._truncated = truncated
        events = self._write_all(self._parser.finish())
        if not self.rejected:
            return events
        return [*events, Noted(facts={TOOL_WARNINGS: [call._asdict() for call in self.rejected]})]

    def _write_all(self, outputs: Sequence[ParserOutput]) -> list[Event]:
        events: list[Event] = []
        for output in self._blanks.filter_blanks(outputs):
            match output:
                case PlainText(text):
                    events += self._writer.write_block("text", text)
                case CallStarted(name):
                    events += self._start_call(name)
                case CallArguments(text):
                    events += self._write_arguments(text)
                case CallEnded():
                    events += self._end_call()
                case MalformedCall():
                    events += self._abandon_call(output)
                case _:
                    assert_never(output)
        return events

    def _start_call(self, name: str) -> list[Event]:
        self._call_count += 1
        check_call_count(self._call_count)
        call = _Call(name)
        self._open_calls.append(call)
        if self._reports:
            return self._open_call(call)
        if not self._validator.has_tool(name):
            call.fault = UNKNOWN_TOOL_FAULT
        return []

    def _open_call(self, call: _Call) -> list[Event]:
        call.is_open = self.has_calls = True
        return self._writer.open_call(call, name=call.name, call_id=self._new_id("call"), arguments="".join(call.texts))

    def _write_arguments(self, text: str) -> list[Event]:
        call = self._open_calls[-1]
        if not call.fault:
            call.bytes += len(text.encode())
            call.texts.append(text)
            if call.bytes > self._validator.max_args_bytes:
                call.fault = self._validator.too_long_reason
                call.texts.clear()
        return self._writer.write_arguments(call, text) if call.is_open else []

    def _end_call(self) -> list[Event]:
        call = self._open_calls.pop()
        fault = call.fault or self._validator.fault_of(call.name, "".join(call.texts))
        if fault:
            self.rejected.append(RejectedCall(call.name, fault))
            if not call.is_open:
                return []
        events = [] if call.is_open else self._open_call(call)
        return events + self._writer.close_call(call)

    def _abandon_call(self, broken: MalformedCall) -> list[Event]:
        call = self._open_calls.pop() if self._open_calls else None
        if call is not None and not call.fault and broken.truncated and self._truncated:
            events = [] if call.is_open else self._open_call(call)
            return events + self._writer.close_call(call, "incomplete")
        fault = broken.reason if call is None else call.fault or broken.reason
        self.rejected.append(RejectedCall("" if call is None else call.name, fault))
        if call is not None and call.is_open:
            return self._writer.close_call(call, "incomplete")
        return self._writer.write_block("text", broken.raw) if self._reports or broken.is_prose else []


def create_text_call_decoder(
    writer: ItemWriter, new_id: NewId, profile: Profile, tools: Sequence[Json]
) -> TextCallDecoder | None:
    """Returns the decoder for calls in text; None if the profile has no calls in text."""
    parser = PARSER_FACTORIES.get(profile.tool_parser if profile.text_tool_calls == "none" else profile.text_tool_calls)
    if parser is None:
        return None
    return TextCallDecoder(
        writer,
        new_id,
        parser,
        tools,
        validation=profile.tool_validation,
        max_args_bytes=profile.max_tool_args_bytes,
    )
