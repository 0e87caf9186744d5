"""What an engine generates, as events. It is text and nothing else: thoughts, answers and calls are told apart here."""

from collections.abc import Sequence

from translation.parsers.edges import EdgeTrimmer
from translation.parsers.text_calls import TextCalls
from translation.parsers.think_tags import ThinkParser
from translation.parsers.tools import ToolParser
from translation.representation.events import Event, Failed, Finished, FinishReason, Usage
from translation.representation.item_writer import ItemWriter
from translation.representation.items import NewId
from translation.representation.json_types import Json
from translation.representation.profile import Profile


class Generated:
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
        tags: bool = False,
        think_open: bool = False,
        parser: ToolParser | None = None,
        tools: Sequence[Json] = (),
        held: bool = False,
    ) -> None:
        self._noun = "summary" if profile.reasoning_part == "summary_text" else "reasoning"
        self._writer = ItemWriter(new_id)
        self._edges = EdgeTrimmer()
        self._think = ThinkParser(open_at_start=think_open) if tags else None
        self._calls = (
            None
            if parser is None
            else TextCalls(
                self._writer,
                new_id,
                parser,
                tools,
                held=held,
                validation=profile.tool_validation,
                max_args_bytes=profile.max_tool_args_bytes,
            )
        )

    @property
    def takes_tags(self) -> bool:
        """Whether thoughts are what stands between tags."""
        return self._think is not None

    @property
    def in_thought(self) -> bool:
        """Whether text would go on with a thought between tags."""
        return self._think is not None and self._think.inside

    def think(self, text: str) -> list[Event]:
        """More of the thought."""
        text = self._edges.feed("reasoning", text)
        return self._writer.block(self._noun, text) if text else []

    def begin_answer(self) -> None:
        """The thought is over, also where there was none: line breaks at the start of the answer are layout."""
        self._edges.feed("reasoning", "")

    def say(self, text: str, logprobs: list[Json] | None = None) -> list[Event]:
        """More of the answer, or of what think tags take apart."""
        if self._think is None:
            return self._answer(text, logprobs)
        return self._split(self._think.feed(text), logprobs)

    def finish(self, reason: FinishReason, usage: Usage) -> list[Event]:
        """No more is coming. `length`: the last item was cut."""
        events = self._split(self._think.finish(), None) if self._think is not None else []
        cut = reason == "length"
        if self._calls is not None:
            events += self._calls.finish(truncated=cut)
            if events and isinstance(failed := events[-1], Failed):
                failed.usage = usage
                return events
            if self._calls.made and reason == "stop":
                reason = "tool_calls"
        events += self._writer.close("incomplete" if cut else "completed")
        return [*events, Finished(reason, None, usage)]

    def _split(self, runs: Sequence[tuple[str, str]], logprobs: list[Json] | None) -> list[Event]:
        events: list[Event] = []
        for noun, text in runs:
            events += self.think(text) if noun == "reasoning" else self._answer(text, logprobs)
        return events

    def _answer(self, text: str, logprobs: list[Json] | None) -> list[Event]:
        text = self._edges.feed("text", text)
        if not text:
            return []
        if self._calls is not None:
            return self._calls.feed(text, logprobs)
        return self._writer.block("text", text, logprobs)
