"""Builds what streamed and whole replies share: lines, calls, log probabilities, counts and the end."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import orjson

from translation.decoding.usage import read_count, read_token_logprobs
from translation.representation.events import Finished, FinishReason, Usage
from translation.representation.json_types import Item, Json
from translation.tools.arguments import parse_past_arguments

PARAGRAPH_BREAK: Final = "\n\n"

_DONE_REASONS: Final[dict[FinishReason, str]] = {"length": "length", "content_filter": "content_filter"}
"""Reason of a turn -> `done_reason`. Any other is `stop`, also where the model called tools."""

_UPSTREAM_DURATIONS: Final = ("load_duration", "prompt_eval_duration", "eval_duration")
"""Durations in nanoseconds that an upstream of the same API reports. Others do not, and they are not guessed."""

_MAX_ARGS_BYTES: Final = 2**31


class LineHead(NamedTuple):
    """The common members of a reply's lines, and the client's options."""

    model: str
    created_at: str
    """RFC 3339, with nanoseconds."""
    is_chat: bool
    """Whether the reply is of the chat API. Replies of the generate API have their text in `response`."""
    shows_thinking: bool
    clock_ns: Callable[[], int]
    """Nanoseconds, from any origin."""
    wants_logprobs: bool = False

    def build_line(
        self, text: str = "", *, thinking: str = "", calls: Sequence[Json] = (), logprobs: Sequence[Json] = ()
    ) -> Json:
        """Returns a line that is not the last one."""
        line: Json = {"model": self.model, "created_at": self.created_at}
        if self.is_chat:
            message: Json = {"role": "assistant", "content": text}
            if thinking:
                message["thinking"] = thinking
            if calls:
                message["tool_calls"] = list(calls)
            line["message"] = message
        else:
            line["response"] = text
            if thinking:
                line["thinking"] = thinking
        if logprobs:
            line["logprobs"] = read_token_logprobs(list(logprobs)) or []
        line["done"] = False
        return line

    def end_line(self, line: Json, finished: Finished, usage: Usage | None, started_ns: int) -> Json:
        """Returns a line as the last one, with the reason of the end, counts and durations."""
        line = {**line, "done": True, "done_reason": _DONE_REASONS.get(finished.reason, "stop")}
        line |= finished.remarks
        line["total_duration"] = self.clock_ns() - started_ns
        counts = usage or Usage()
        reported: Json = counts.raw or {}
        named = {"prompt_eval_count": counts.input, "eval_count": counts.output}
        named |= {key: read_count(reported.get(key)) for key in _UPSTREAM_DURATIONS}
        return line | {key: count for key, count in named.items() if count is not None}


def encode_line(line: Json) -> bytes:
    """Returns the bytes of one line of a stream."""
    return orjson.dumps(line) + b"\n"


def build_failure(message: str) -> Json:
    """Returns the object that reports a failure: an error's body, or the last line of a stream that has begun."""
    return {"error": message}


def build_whole_call(item: Item, number: int) -> Json:
    """Returns a whole call, with its arguments as an object. `number` counts the calls of the reply."""
    arguments = parse_past_arguments(item.get("arguments") or "", "", [], max_bytes=_MAX_ARGS_BYTES)
    return {"id": item["call_id"], "function": {"index": number, "name": item["name"], "arguments": arguments}}


def is_cut(item: Item, status: Any = None) -> bool:
    """Whether a call was cut off, so that its arguments are not whole."""
    return "incomplete" in (item.get("status"), status)
