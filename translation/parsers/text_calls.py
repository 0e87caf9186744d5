"""Decodes the text of an answer into items: messages and tool calls."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, assert_never

from translation.parsers.tools import PARSER_FACTORIES
from translation.parsers.tools.blank_filter import BlankFilter
from translation.parsers.tools.parser_output import (
    CallArguments,
    CallEnded,
    CallStarted,
    MalformedCall,
    ParserOutput,
    PlainText,
    ToolParser,
)
from translation.representation.events import Event, Failed, Noted
from translation.representation.item_writer import ItemWriter
from translation.representation.items import NewId
from translation.representation.json_types import Json
from translation.representation.profile import Profile
from translation.tools.call_validator import CallValidator

CALL_PARSE_ERROR: Final = "tool_call_parse_error"
"""The code of the failure of a turn with a call that turned out to be invalid after its beginning was sent."""

TOOL_WARNINGS: Final = "tool_warnings"
"""The fact in `Noted` that lists invalid calls, each as `{name, why}`."""

_UNFINISHED_CALL_TEXT: Final = "The model began a tool call and did not finish it."
_UNUSABLE_CALL_TEXT: Final = "The model made a tool call that cannot be run."


class RejectedCall(NamedTuple):
    """An invalid call. It is left out, or with the validation `report` sent.

    `name` is empty if the call has none. `why` is for people. Both are keys of the wire format.
    """

    name: str
    why: str


@dataclass(slots=True, eq=False)
class _Call:
    name: str
    open: bool = False
    rejection: str = ""
    texts: list[str] = field(default_factory=list)
    bytes: int = 0


class TextCallDecoder:
    """Decodes the text of one answer into events, through an ItemWriter. Text around calls becomes messages.

    With `buffered`, for a reply that is not streamed, a call is validated before its events are returned. Without, its
    arguments are sent as they arrive, and a call that turns out to be invalid ends the turn: the last event is Failed,
    and no events follow. `tools` are those of the turn, in the form of chat or of Responses. `validation`: `drop`
    leaves invalid calls out, `report` sends those that can be parsed.
    """

    def __init__(
        self,
        writer: ItemWriter,
        new_id: NewId,
        parser: ToolParser,
        tools: Sequence[Json],
        *,
        buffered: bool,
        validation: Literal["drop", "report"] = "drop",
        max_args_bytes: int = 200_000,
    ) -> None:
        self.has_calls = False
        """Whether any call was started in the events."""
        self.has_text = False
        """Whether any text outside calls is in the events."""
        self.rejected: list[RejectedCall] = []
        """The invalid calls, in order."""
        self._writer = writer
        self._new_id = new_id
        self._parser = parser
        self._validator = CallValidator(tools, max_args_bytes)
        self._buffered = buffered
        self._reports = validation == "report"
        self._blanks = BlankFilter()
        self._call: _Call | None = None
        self._logprobs: list[Json] = []
        self._unfinished = False
        self._truncated = False
        self._failed = False

    def feed(self, text: str, logprobs: list[Json] | None = None) -> list[Event]:
        """Adds text. `logprobs` are sent with the next text outside calls."""
        if logprobs:
            self._logprobs += logprobs
        return self._write_all(self._parser.feed(text))

    def finish(self, *, truncated: bool) -> list[Event]:
        """Ends the text. `truncated`: it was cut at the limit of tokens.

        A call that was sent and cut by that limit ends as `incomplete`. Without `truncated`, and without the validation
        `report`, such a call fails the turn. An answer of nothing but rejected calls gets a message that tells so. The
        rejected calls are in a last `Noted`, unless the turn fails.
        """
        self._truncated = truncated
        events = self._write_all(self._parser.finish())
        if self._failed or not self.rejected:
            return events
        if not self.has_calls and not self.has_text:
            events += self._write_text(_UNFINISHED_CALL_TEXT if self._unfinished else _UNUSABLE_CALL_TEXT)
        return [*events, Noted(facts={TOOL_WARNINGS: [call._asdict() for call in self.rejected]})]

    def _write_all(self, outputs: Sequence[ParserOutput]) -> list[Event]:
        events: list[Event] = []
        for output in self._blanks.filter_blanks(outputs):
            if self._failed:
                break
            events += self._write(output)
        return events

    def _write(self, output: ParserOutput) -> list[Event]:
        match output:
            case PlainText(text):
                return self._write_text(text)
            case CallStarted(name):
                return self._start_call(name)
            case CallArguments(text):
                return self._write_arguments(text)
            case CallEnded():
                return self._end_call()
            case MalformedCall():
                return self._abandon_call(output)
            case _:
                assert_never(output)

    def _write_text(self, text: str) -> list[Event]:
        self.has_text = True
        logprobs, self._logprobs = self._logprobs, []
        return self._writer.write_block("text", text, logprobs or None)

    def _start_call(self, name: str) -> list[Event]:
        self._logprobs = []
        call = self._call = _Call(name)
        if not self._reports and not self._validator.has_tool(name):
            call.rejection = "there is no such tool"
        return [] if self._buffered or call.rejection else self._open_call(call)

    def _open_call(self, call: _Call) -> list[Event]:
        call.open = self.has_calls = True
        return self._writer.open_call(call, name=call.name, call_id=self._new_id("call"), arguments="".join(call.texts))

    def _write_arguments(self, text: str) -> list[Event]:
        call = self._call
        assert call is not None  # parsers start a call before its arguments
        if call.rejection:
            return []
        call.bytes += len(text.encode())
        if call.bytes > self._validator.max_args_bytes:
            call.rejection = self._validator.too_long_reason
            call.texts.clear()
            return self._fail(call.name, call.rejection) if call.open else []
        call.texts.append(text)
        return self._writer.write_arguments(call, text) if call.open else []

    def _end_call(self) -> list[Event]:
        call, self._call = self._call, None
        assert call is not None  # parsers end what they started
        fault = call.rejection or self._validator.fault_of(call.name, "".join(call.texts))
        if fault and (call.rejection or not self._reports):
            if call.open:
                return self._fail(call.name, fault)
            self.rejected.append(RejectedCall(call.name, fault))
            return []
        if fault:
            self.rejected.append(RejectedCall(call.name, fault))
        events = [] if call.open else self._open_call(call)
        return events + self._writer.close_call(call)

    def _abandon_call(self, broken: MalformedCall) -> list[Event]:
        call, self._call = self._call, None
        name = "" if call is None else call.name
        if call is not None and call.open:
            if broken.truncated and self._truncated:
                return self._writer.close_call(call, "incomplete")
            if not self._reports:
                return self._fail(name, broken.reason)
            self.rejected.append(RejectedCall(name, broken.reason))
            return self._writer.close_call(call, "incomplete")
        self._unfinished = broken.truncated
        self.rejected.append(RejectedCall(name, broken.reason))
        return self._write_text(broken.raw) if self._reports else []

    def _fail(self, name: str, fault: str) -> list[Event]:
        self._failed = True
        self.rejected.append(RejectedCall(name, fault))
        return [Failed(CALL_PARSE_ERROR, f"the model's call of {name!r} cannot be used: {fault}")]


def text_call_decoder_for(
    writer: ItemWriter, new_id: NewId, profile: Profile, tools: Sequence[Json], buffered: bool
) -> TextCallDecoder | None:
    """Returns the decoder for calls in text; None if the profile says that calls do not come as text."""
    parser = PARSER_FACTORIES.get(profile.tool_parser if profile.text_tool_calls == "none" else profile.text_tool_calls)
    if parser is None:
        return None
    return TextCallDecoder(
        writer,
        new_id,
        parser(),
        tools,
        buffered=buffered,
        validation=profile.tool_validation,
        max_args_bytes=profile.max_tool_args_bytes,
    )
