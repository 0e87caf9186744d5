"""The replies of the benchmark's upstream, and the check that a client received them whole.

A model name gives the length and the pace: `bench-128` is 128 deltas at full speed, `bench-128-50ps` the same at 50 per
second, and `bench-128-50ps-stamped` has in each word the time when it was sent instead of its number. The deltas of
`bench-128-reasoning` are reasoning, with a short answer after them. Those of `bench-128-arguments` are arguments of a
call. `bench-128-call` calls a tool of the MCP server first, and answers when it has the result.

The upstream's JSON is written as Python's `json.dumps` writes it, with an escape for every character beyond ASCII.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

import orjson

from bench.load.texts import build_tokens, is_word
from providers.base import Dialect
from tests.upstream import anthropic
from tests.upstream.builders import (
    CHAT_USAGE,
    DONE,
    chat_chunk,
    message_item,
    response_snapshot,
    text_chunks,
    text_events,
    whole_chat,
)
from translation.representation.json_types import Json

_NAME = re.compile(r"bench-(\d+)(?:-(\d+)ps)?(-stamped)?(?:-(reasoning|arguments|call))?")
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)


_ANSWER: Final = "ok"
"""The answer after reasoning."""

_CALL_ARGUMENTS: Final = '{"words":"some"}'
"""The arguments of the call of an MCP server's tool."""


@dataclass(frozen=True)
class Model:
    """The length, pace and kind of deltas of an answer. `per_second` is the rate of deltas; 0 means full speed."""

    deltas: int
    per_second: int
    stamped: bool = False
    kind: str = "text"

    @classmethod
    def named(cls, name: str) -> "Model":
        """Returns the model of a name. Raises ValueError for a name that does not have the benchmark's form."""
        if not (match := _NAME.fullmatch(name)):
            raise ValueError(f"{name} is not bench-N or bench-N-Mps")
        return cls(int(match[1]), int(match[2] or 0), match[3] is not None, match[4] or "text")

    @property
    def tokens(self) -> list[str]:
        return build_tokens(self.deltas)

    @property
    def text(self) -> str:
        """The texts of all deltas, joined."""
        text = "".join(self.tokens)
        if self.kind == "arguments":
            return orjson.dumps({"words": text}).decode()
        return f"{text}{_ANSWER}" if self.kind == "reasoning" else text


@cache
def build_stream_writes(deltas: int, dialect: Dialect, kind: str = "text") -> list[bytes]:
    """Returns a streamed reply as the writes to the socket: one per frame, each an HTTP chunk of its own."""
    tokens = build_tokens(deltas)
    if dialect == "responses":
        events = enumerate(text_events(*tokens))
        frames = [_named_frame({"type": event["type"], "sequence_number": at, **event}) for at, event in events]
    elif dialect == "messages":
        frames = [_named_frame(event) for event in _message_events(kind, tokens)]
    else:
        frames = [_data_frame(chunk) for chunk in _CHUNKS[kind](*tokens)]
    if dialect != "messages":
        frames.append(DONE)
    chunks = [b"%x\r\n%b\r\n" % (len(frame), frame) for frame in frames]
    return [_STREAM_HEAD + chunks[0], *chunks[1:-1], chunks[-1] + b"0\r\n\r\n"]


def _dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _data_frame(value: object) -> bytes:
    return b"data: %b\n\n" % _dump(value)


def _named_frame(event: Json) -> bytes:
    return b"event: %b\n%b" % (event["type"].encode(), _data_frame(event))


def _argument_texts(tokens: Sequence[str]) -> list[str]:
    """Returns the pieces of a call's arguments: one for each token, and one before and after them."""
    return ['{"words":"', *(orjson.dumps(token)[1:-1].decode() for token in tokens), '"}']


def _message_events(kind: str, tokens: list[str]) -> list[Json]:
    """Returns the events of a message whose deltas are of this kind."""
    if kind == "arguments":
        call = anthropic.call_block("write_words")
        blocks = anthropic.block(0, call, *anthropic.given(*_argument_texts(tokens)))
        return [anthropic.opening(), *blocks, *anthropic.closing("tool_use")]
    if kind == "reasoning":
        blocks = anthropic.block(0, anthropic.thinking_block(), *anthropic.thought(*tokens))
        blocks += anthropic.block(1, anthropic.text_block(), *anthropic.text_deltas(_ANSWER))
        return [anthropic.opening(), *blocks, *anthropic.closing()]
    return anthropic.text_events(*tokens)


def _reasoning_chunks(*tokens: str) -> list[Json]:
    deltas = [
        {"role": "assistant", "content": ""},
        *({"reasoning_content": token} for token in tokens),
        {"content": _ANSWER},
    ]
    return _chunks_of(deltas, "stop")


def _argument_chunks(*tokens: str) -> list[Json]:
    start = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "write_words", "arguments": ""}}
    arguments = ({"tool_calls": [{"index": 0, "function": {"arguments": text}}]} for text in _argument_texts(tokens))
    return _chunks_of([{"role": "assistant", "content": None, "tool_calls": [start]}, *arguments], "tool_calls")


def _chunks_of(deltas: list[Json], finish_reason: str) -> list[Json]:
    return [*map(chat_chunk, deltas), chat_chunk({}, finish_reason), chat_chunk(usage=CHAT_USAGE)]


def _call_chunks(*_tokens: str) -> list[Json]:
    function = {"name": "bench_write_words", "arguments": _CALL_ARGUMENTS}
    call = {"index": 0, "id": "call_1", "type": "function", "function": function}
    return _chunks_of([{"role": "assistant", "content": None, "tool_calls": [call]}], "tool_calls")


_CHUNKS: Final = {
    "text": text_chunks,
    "reasoning": _reasoning_chunks,
    "arguments": _argument_chunks,
    "call": _call_chunks,
}
"""Kind of deltas -> the function that builds the chunks of a chat stream from the texts."""


@cache
def build_whole_reply(deltas: int, dialect: Dialect) -> bytes:
    """Returns an answer as one JSON reply, with its HTTP head."""
    text = Model(deltas, 0).text
    wholes = {
        "responses": lambda: response_snapshot("completed", [message_item(text)]),
        "messages": lambda: anthropic.message(anthropic.text_block(text)),
        "chat": lambda: whole_chat(text),
    }
    body = _dump(wholes[dialect]())
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


_TOKEN = re.compile(rb" token\d{4}")
_STAMP = re.compile(rb'"(?:delta|content|text)":\s*" (\d{9})"')
_STAMP_RANGE = 10**9


def stamp_write(write: bytes, now_s: float) -> bytes:
    """Returns a write with the time in µs in place of its word, if it has one. The length stays the same."""
    return _TOKEN.sub(b" %09d" % (int(now_s * 1e6) % _STAMP_RANGE), write, count=1)


def parse_delays_s(content: bytes, now_s: float) -> list[float]:
    """Returns the seconds since each stamped delta in the content was sent."""
    return [(int(now_s * 1e6) - int(stamp)) % _STAMP_RANGE / 1e6 for stamp in _STAMP.findall(content)]


FIRST_DELTA = b" token0000"
"""Bytes that show that the first delta has arrived."""

DELTA, END = b"event: response.output_text.delta", b"event: response.completed"
"""Bytes that show that a Responses stream has a further delta, and that it has ended well."""

_STRING: Final = rb'"([^"\\]*(?:\\.[^"\\]*)*)"'
_DELTAS: Final = {
    "responses": re.compile(rb'"delta":\s*' + _STRING),
    "chat": re.compile(rb'"(?:content|reasoning_content|arguments)":\s*' + _STRING),
    "messages": re.compile(rb'"(?:text|thinking|partial_json)":\s*' + _STRING),
}
"""API -> the texts of all deltas of its streams."""

_ENDS: Final = {
    "responses": re.compile(rb'"response\.completed".*data: \[DONE\]\n\n\Z', re.DOTALL),
    "chat": re.compile(rb'"finish_reason":\s*"(?:stop|tool_calls)".*data: \[DONE\]\n\n\Z', re.DOTALL),
    "messages": re.compile(rb'"stop_reason":\s*"(?:end_turn|tool_use)".*"message_stop"\}\n\n\Z', re.DOTALL),
}
"""API -> the bytes at the end of its streams."""


_ID = re.compile(rb'"id":\s*"(resp_[^"]+)"')


def parse_response_id(body: bytes) -> str:
    """Returns the id of the response in a Responses stream. Raises ValueError if there is none."""
    if not (match := _ID.search(body)):
        raise ValueError(f"no id in {body[:200]!r}…")
    return match[1].decode()


_QUOTED_BYTES = 600

_TEXT_READERS: Final[Mapping[Dialect, Callable[[Json], str]]] = {
    "responses": lambda answer: str(answer["output"][-1]["content"][0]["text"]),
    "chat": lambda answer: str(answer["choices"][0]["message"]["content"]),
    "messages": lambda answer: str(answer["content"][0]["text"]),
}
"""API -> the function that returns the text of its whole replies."""


def find_fault(body: bytes, model: Model, *, dialect: Dialect, streamed: bool) -> str | None:
    """Returns what is wrong with the body of a reply, or None. The whole text is compared with the model's."""
    if not streamed:
        answer = orjson.loads(body)
        text = _TEXT_READERS[dialect](answer)
        return None if text == model.text else f"the text is {text[:60]!r}…"
    if model.stamped:
        stamps = _STAMP.findall(body)
        if len(stamps) != sum(map(is_word, model.tokens)):
            return f"{len(stamps)} stamps were received, in {body[:200]!r}…"
    else:
        deltas = _DELTAS[dialect].findall(body)
        # The upstream's own Responses streams are plain text, whatever the kind.
        if _unescape(b"".join(deltas)).removeprefix(_CALL_ARGUMENTS) not in (model.text, "".join(model.tokens)):
            return f"{len(deltas)} deltas were received, {model.deltas} were sent, in {body[:200]!r}…"
    if not _ENDS[dialect].search(body):
        return f"the end is {body[max(body.rfind(b'event: '), 0) :][:_QUOTED_BYTES]!r}"
    return None


@lru_cache(maxsize=64)
def _unescape(text: bytes) -> str:
    """Returns the text of a JSON string without its quotes; empty for no JSON. Most answers have equal texts."""
    try:
        return str(orjson.loads(b'"%b"' % text))
    except ValueError:
        return ""


def find_stored_fault(listing: Json, model: Model, answers: int) -> str | None:
    """Returns what is wrong with the newest stored responses, or None.

    `listing` is the reply of `GET /v1/responses`. The first `answers` responses must be complete and have the text that
    the clients have read.
    """
    stored = listing["data"]
    if len(stored) < answers:
        return f"{len(stored)} of {answers} answers were stored"
    for response in stored[:answers]:
        text = "".join(part["text"] for item in response["output"] for part in item["content"])
        if response["status"] != "completed" or text != model.text:
            return f"{response['id']} was stored as {response['status']} with the text {text[:60]!r}"
    return None
