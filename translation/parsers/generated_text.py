"""What an engine generates, as events. It is text and nothing else: thoughts, answers and calls are told apart here."""

from collections.abc import Sequence

from translation.parsers.edges import EdgeTrimmer
from translation.parsers.text_calls import TextCallDecoder
from translation.parsers.think_tags import ThinkParser
from translation.parsers.tools import ToolParser
from translation.representation.events import Event, Failed, Finished, FinishReason, Usage
from translation.representation.item_writer import ItemWriter
from translation.representation.items import NewId
from translation.representation.json_types import Json
from translation.representation.profile import Profile


class GeneratedTextDecoder:
    """Text in, events out, but for `Started`. Nothing may follow `finish`, nor an event that is Failed.

    `tags`: text is taken apart at think tags, and begins inside one if `think_open`; otherwise thoughts are what
    `think` is called with. `parser`: how calls are read out of the answer; None: it has none. `held`: a call is judged
    before it is said, for answers that are not streamed.
    """

    def __init__(
        self,
        new_id: NewId,
        profile: Profile,
        *,
        parse_think_tags: bool = False,
        think_open: bool = False,
        parser: ToolParser | None = None,
        tools: Sequence[Json] = (),
        buffered: bool = False,
    ) -> None:
        self._reasoning_kind = "summary" if profile.reasoning_part == "summary_text" else "reasoning"
        self._writer = ItemWriter(new_id)
        self._edges = EdgeTrimmer()
        self._think_parser = ThinkParser(open_at_start=think_open) if parse_think_tags else None
        self._calls = (
            None
            if parser is None
            else TextCallDecoder(
                self._writer,
                new_id,
                parser,
                tools,
                buffered=buffered,
                validation=profile.tool_validation,
                max_args_bytes=profile.max_tool_args_bytes,
            )
        )

    @property
    def parses_think_tags(self) -> bool:
        """Whether thoughts are what stands between tags."""
        return self._think_parser is not None

    @property
    def in_reasoning(self) -> bool:
        """Whether text would go on with a thought between tags."""
        return self._think_parser is not None and self._think_parser.in_reasoning

    def feed_reasoning(self, text: str) -> list[Event]:
        """More of the thought."""
        text = self._edges.feed("reasoning", text)
        return self._writer.write_block(self._reasoning_kind, text) if text else []

    def begin_answer(self) -> None:
        """The thought is over, also where there was none: line breaks at the start of the answer are layout."""
        self._edges.feed("reasoning", "")

    def feed_text(self, text: str, logprobs: list[Json] | None = None) -> list[Event]:
        """More of the answer, or of what think tags take apart."""
        if self._think_parser is None:
            return self._write_answer(text, logprobs)
        return self._feed_runs(self._think_parser.feed(text), logprobs)

    def finish(self, reason: FinishReason, usage: Usage) -> list[Event]:
        """No more is coming. `length`: the last item was cut."""
        events = self._feed_runs(self._think_parser.finish(), None) if self._think_parser is not None else []
        cut = reason == "length"
        if self._calls is not None:
            events += self._calls.finish(truncated=cut)
            if events and isinstance(failed := events[-1], Failed):
                failed.usage = usage
                return events
            if self._calls.has_calls and reason == "stop":
                reason = "tool_calls"
        events += self._writer.close("incomplete" if cut else "completed")
        return [*events, Finished(reason, None, usage)]

    def _feed_runs(self, runs: Sequence[tuple[str, str]], logprobs: list[Json] | None) -> list[Event]:
        events: list[Event] = []
        for noun, text in runs:
            events += self.feed_reasoning(text) if noun == "reasoning" else self._write_answer(text, logprobs)
        return events

    def _write_answer(self, text: str, logprobs: list[Json] | None) -> list[Event]:
        text = self._edges.feed("text", text)
        if not text:
            return []
        if self._calls is not None:
            return self._calls.feed(text, logprobs)
        return self._writer.write_block("text", text, logprobs)
