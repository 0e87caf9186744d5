"""Tool calls out of the text of an answer, as items."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, assert_never

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
from translation.tools.call_validator import CallValidator

CALL_PARSE_ERROR: Final = "tool_call_parse_error"
"""The code of the failure that ends a turn whose call turned out to be none after its beginning had been said."""

TOOL_WARNINGS: Final = "tool_warnings"
"""The fact that is noted of calls that do not fit: a list of `{name, why}`."""

_UNFINISHED_CALL_TEXT: Final = "The model began a tool call and did not finish it."
_UNUSABLE_CALL_TEXT: Final = "The model made a tool call that cannot be run."


class RejectedCall(NamedTuple):
    """A call that does not fit: left out, or with `report` said all the same. `name` is empty where it has none."""

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
    """Text in, events out, written through an ItemWriter; text before, between and after calls is messages.

    With `held` (a reply that is not streamed) a call is judged before it is said. Otherwise its arguments go out as
    they are written, and a call that turns out not to fit ends the turn: then the last event is Failed, and no more
    come. `tools` are the turn's, in chat's form or Responses'.
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
        """Whether any call was said."""
        self.has_text = False
        """Whether any text was said."""
        self.rejected: list[RejectedCall] = []
        """The calls that do not fit, in order."""
        self._writer = writer
        self._new_id = new_id
        self._parser = parser
        self._judge = CallValidator(tools, max_args_bytes)
        self._buffered = buffered
        self._reports = validation == "report"
        self._blanks = BlankFilter()
        self._call: _Call | None = None
        self._logprobs: list[Json] = []
        self._unfinished = False
        self._truncated = False
        self._failed = False

    def feed(self, text: str, logprobs: list[Json] | None = None) -> list[Event]:
        """Take a piece of text. `logprobs` go out with the next text that is said."""
        if logprobs:
            self._logprobs += logprobs
        return self._write_all(self._parser.feed(text))

    def finish(self, *, truncated: bool) -> list[Event]:
        """The text is complete, or with `truncated` was cut at the limit of tokens.

        A call that was cut there ends `incomplete`, any other that is broken off fails. An answer of nothing but calls
        that cannot be said gets a message that says so. What was dropped is noted, unless the turn fails.
        """
        self._truncated = truncated
        events = self._write_all(self._parser.finish())
        if self._failed or not self.rejected:
            return events
        if not self.has_calls and not self.has_text:
            events += self._write_text(_UNFINISHED_CALL_TEXT if self._unfinished else _UNUSABLE_CALL_TEXT)
        return [*events, Noted(facts={TOOL_WARNINGS: [each._asdict() for each in self.rejected]})]

    def _write_all(self, said: Sequence[ParserOutput]) -> list[Event]:
        events: list[Event] = []
        for each in self._blanks.filter_blanks(said):
            if self._failed:
                break
            events += self._write(each)
        return events

    def _write(self, said: ParserOutput) -> list[Event]:
        match said:
            case PlainText(text):
                return self._write_text(text)
            case CallStarted(name):
                return self._start_call(name)
            case CallArguments(text):
                return self._write_arguments(text)
            case CallEnded():
                return self._end_call()
            case MalformedCall():
                return self._abandon_call(said)
            case _:
                assert_never(said)

    def _write_text(self, text: str) -> list[Event]:
        self.has_text = True
        logprobs, self._logprobs = self._logprobs, []
        return self._writer.write_block("text", text, logprobs or None)

    def _start_call(self, name: str) -> list[Event]:
        self._logprobs = []
        call = self._call = _Call(name)
        if not self._reports and not self._judge.has_tool(name):
            call.rejection = "there is no such tool"
        return [] if self._buffered or call.rejection else self._open_call(call)

    def _open_call(self, call: _Call) -> list[Event]:
        call.open = self.has_calls = True
        return self._writer.open_call(call, name=call.name, call_id=self._new_id("call"), arguments="".join(call.texts))

    def _write_arguments(self, text: str) -> list[Event]:
        call = self._call
        assert call is not None  # parsers start a call before they say its arguments
        if call.rejection:
            return []
        call.bytes += len(text.encode())
        if call.bytes > self._judge.max_args_bytes:
            call.rejection = self._judge.too_long_reason
            call.texts.clear()
            return self._fail(call.name, call.rejection) if call.open else []
        call.texts.append(text)
        return self._writer.write_arguments(call, text) if call.open else []

    def _end_call(self) -> list[Event]:
        call, self._call = self._call, None
        assert call is not None  # parsers end what they started
        why = call.rejection or self._judge.fault_of(call.name, "".join(call.texts))
        if why and (call.rejection or not self._reports):
            if call.open:
                return self._fail(call.name, why)
            self.rejected.append(RejectedCall(call.name, why))
            return []
        if why:
            self.rejected.append(RejectedCall(call.name, why))
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

    def _fail(self, name: str, why: str) -> list[Event]:
        self._failed = True
        self.rejected.append(RejectedCall(name, why))
        return [Failed(CALL_PARSE_ERROR, f"the model's call of {name!r} cannot be used: {why}")]
