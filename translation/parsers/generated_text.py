"""Decodes the text that an engine generates into events: it separates reasoning, answer and tool calls."""

from collections.abc import Sequence

from translation.parsers.edges import EdgeTrimmer
from translation.parsers.text_calls import TextCallDecoder
from translation.parsers.think_tags import ThinkParser
from translation.parsers.tools import ToolParser
from translation.representation.events import Event, Finished, FinishReason, Usage
from translation.representation.item_writer import ItemWriter
from translation.representation.items import NewId
from translation.representation.json_types import Json
from translation.representation.profile import Profile


class GeneratedTextDecoder:
    """Decodes the text of one turn into every event but `Started`.

    No method may be called after `finish`. With `parse_think_tags` reasoning is the
    text between think tags, and the text begins inside them if `think_open`; without, it is the text that is given to
    `feed_reasoning`. `parser` reads the calls of the answer; None: an answer has no calls.
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
                lambda: parser,
                tools,
                validation=profile.tool_validation,
                max_args_bytes=profile.max_tool_args_bytes,
            )
        )

    @property
    def parses_think_tags(self) -> bool:
        """Whether reasoning is the text between think tags."""
        return self._think_parser is not None

    @property
    def in_reasoning(self) -> bool:
        """Whether the next text continues reasoning between think tags."""
        return self._think_parser is not None and self._think_parser.in_reasoning

    def feed_reasoning(self, text: str) -> list[Event]:
        """Adds reasoning. Returns its events."""
        text = self._edges.feed("reasoning", text)
        return self._writer.write_block(self._reasoning_kind, text) if text else []

    def begin_answer(self) -> None:
        """Ends the reasoning, even if there was none, so that line breaks at the start of the answer are stripped."""
        self._edges.feed("reasoning", "")

    def feed_text(self, text: str, logprobs: list[Json] | None = None) -> list[Event]:
        """Adds text of the answer, or with `parse_think_tags` of reasoning and answer. Returns its events.

        `logprobs` are the log probabilities of the tokens of this text.
        """
        self._writer.add_logprobs(logprobs)
        if self._think_parser is None:
            return self._write_answer(text)
        return self._feed_segments(self._think_parser.feed(text))

    def finish(self, reason: FinishReason, usage: Usage) -> list[Event]:
        """Ends the turn. Returns the last events.

        With the reason `length` the last item ends as `incomplete`. The reason `stop` becomes `tool_calls` if there are
        calls. The last event is Finished.
        """
        events = self._feed_segments(self._think_parser.finish()) if self._think_parser is not None else []
        cut = reason == "length"
        if self._calls is not None:
            events += self._calls.finish(truncated=cut)
            if self._calls.has_calls and reason == "stop":
                reason = "tool_calls"
        events += self._writer.close("incomplete" if cut else "completed")
        return [*events, Finished(reason, None, usage)]

    def _feed_segments(self, segments: Sequence[tuple[str, str]]) -> list[Event]:
        events: list[Event] = []
        for kind, text in segments:
            events += self.feed_reasoning(text) if kind == "reasoning" else self._write_answer(text)
        return events

    def _write_answer(self, text: str) -> list[Event]:
        text = self._edges.feed("text", text)
        if not text:
            return []
        if self._calls is not None:
            return self._calls.feed(text)
        return self._writer.write_block("text", text)
