"""What Ollama's chat says, as events: the chunks of a stream, or one whole answer, which is a chunk that says all."""

from typing import Any, Final

from translation.decoding.chunk_decoder import ChunkDecoder
from translation.decoding.logprobs import read_logprobs
from translation.decoding.usage_counts import read_count
from translation.errors import ProtocolViolation
from translation.ollama.failures import failure_of
from translation.parsers.edges import EdgeTrimmer
from translation.parsers.think_tags import ThinkParser
from translation.representation.events import Event, Failed, FinishReason, Started, Usage
from translation.representation.item_writer import ItemWriter
from translation.representation.items import NewId
from translation.representation.json_types import Json
from translation.representation.profile import DEFAULT_PROFILE, Profile
from translation.tools.arguments import arguments_text
from translation.tools.call_ids import CallIds

FINISH_REASONS: Final[dict[str, FinishReason]] = {"stop": "stop", "length": "length"}
"""`done_reason` -> ours; a word that is not listed (`load`, `unload`) is `other`. Old servers give none: `stop`."""

_REPORTED: Final = (
    "prompt_eval_count",
    "eval_count",
    "total_duration",
    "load_duration",
    "prompt_eval_duration",
    "eval_duration",
)


class OllamaDecoder(ChunkDecoder):
    """Feed it every chunk, then `finish`. No I/O, no clock, no ids of its own.

    What comes after the end is ignored. Raises ProtocolViolation for what is no chat reply at all; a reply that broke
    off ends in Failed.
    """

    def __init__(self, new_id: NewId, profile: Profile = DEFAULT_PROFILE) -> None:
        self.usage: Usage | None = None
        """What was reported so far: all of it comes with the end."""
        self._thought = "summary" if profile.reasoning_part == "summary_text" else "reasoning"
        self._writer = ItemWriter(new_id)
        self._ids = CallIds()
        self._edges = EdgeTrimmer()
        self._reads_tags = profile.parsing_format == "think_tags"
        self._think_open = profile.think_open
        self._think: ThinkParser | None = None
        self._calls = 0
        self._started = False

    def feed(self, chunk: Json) -> list[Event]:
        if self.ended:
            return []
        if not isinstance(chunk, dict):
            raise ProtocolViolation("the upstream sent something that is not a JSON object")
        if error := chunk.get("error"):
            return self._fail(failure_of(error))
        message = chunk.get("message")
        if not isinstance(message, dict) and not chunk.get("done"):
            raise ProtocolViolation("the upstream sent a JSON object that is not a chunk of a chat")
        events: list[Event] = []
        if not self._started:
            self._started = True
            events.append(Started(model=str(chunk.get("model") or "")))
        if isinstance(message, dict):
            events += self._read_message(message, read_logprobs(chunk.get("logprobs")))
        if chunk.get("done") and not self.ended:
            events += self._end(chunk)
        return events

    def finish(self) -> list[Event]:
        """The upstream closed. Where it did not say that it is done, that is a failure, not an answer."""
        if self.ended:
            return []
        return self._fail(Failed("upstream_truncated", "the upstream's reply broke off before it was finished"))

    def _read_message(self, message: Json, logprobs: list[Json] | None) -> list[Event]:
        events: list[Event] = []
        if isinstance(thinking := message.get("thinking"), str) and thinking:
            self._think_open = False  # who takes reasoning out has taken the template's tag out with it
            events += self._say("reasoning", thinking)
        if isinstance(content := message.get("content"), str) and content:
            events += self._read_text(content, logprobs)
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            events += self._read_call(call)
            if self.ended:
                break
        return events

    def _read_text(self, text: str, logprobs: list[Json] | None) -> list[Event]:
        if not self._reads_tags:
            return self._say("text", text, logprobs)
        if self._think is None:
            self._think = ThinkParser(open_at_start=self._think_open)
        return [event for noun, run in self._think.feed(text) for event in self._say(noun, run, logprobs)]

    def _say(self, noun: str, text: str, logprobs: list[Json] | None = None) -> list[Event]:
        text = self._edges.feed(noun, text)
        if not text:
            return []
        if noun == "reasoning":
            return self._writer.block(self._thought, text)
        return self._writer.block(noun, text, logprobs)

    def _read_call(self, call: Any) -> list[Event]:
        """Calls come whole, and most without an id."""
        function = call.get("function") if isinstance(call, dict) else None
        name = function.get("name") if isinstance(function, dict) else None
        if not isinstance(name, str) or not name:
            return self._fail(Failed("upstream_garbled", "the upstream sent a tool call without a name"))
        assert isinstance(function, dict)
        self._edges.cut()
        self._calls += 1
        said = call.get("id")
        call_id = self._ids.take(said if isinstance(said, str) else None)
        given = function.get("arguments")
        # Older servers say null where there are none.
        arguments = "{}" if given is None else arguments_text(given)
        opened = self._writer.call(self._calls, name=name, call_id=call_id, arguments=arguments)
        return [*opened, *self._writer.close_call(self._calls)]

    def _end(self, chunk: Json) -> list[Event]:
        events: list[Event] = []
        if self._think is not None:
            for noun, run in self._think.finish():
                events += self._say(noun, run)
        self.ended = True
        self.usage = _usage(chunk)
        said = chunk.get("done_reason")
        raw_reason = said if isinstance(said, str) and said else None
        reason = "stop" if raw_reason is None else FINISH_REASONS.get(raw_reason, "other")
        events += self._writer.close("incomplete" if reason == "length" else "completed")
        if reason == "stop" and self._calls:
            reason = "tool_calls"
        return [*events, self._writer.ending(reason, raw_reason, self.usage)]

    def _fail(self, failed: Failed) -> list[Event]:
        self.ended = True
        return [failed]


def _usage(chunk: Json) -> Usage | None:
    """Ollama tells neither what it had cached nor what of the answer was thought."""
    counted = {"input": read_count(chunk.get("prompt_eval_count")), "output": read_count(chunk.get("eval_count"))}
    if all(count is None for count in counted.values()):
        return None
    return Usage(**counted, raw={key: chunk[key] for key in _REPORTED if key in chunk})
