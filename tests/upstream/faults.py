"""All faults of an upstream on the wire, by name.

Each fault takes one sound answer in any dialect and breaks it. A fault answers requests for a stream and requests
for JSON, each broken in its own way where that makes sense.
"""

import gzip
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from . import anthropic, gemini, harmony, ollama
from .builders import (
    DONE,
    JSON,
    SSE,
    chat_chunk,
    data_frame,
    dump,
    either,
    error_reply,
    message_item,
    named_frame,
    response_snapshot,
    text_chunks,
    text_events,
    whole_chat,
)
from .script import Close, Drip, Hang, Raw, Repeat, Reply, Reset, Script, Step, reset, silence

TEXT = ("Grüße ", "from ", "upstream")


@dataclass(frozen=True)
class Answer:
    """A sound text answer in one dialect, as frames of a stream and as JSON.

    `cut` is how many frames stand before the one that says how the answer ended, `empty` a frame that adds nothing,
    `error` a frame that says there will be no answer, `refusal` the same as JSON. `done` is said after the last frame;
    `headers` are those of a stream.
    """

    frames: Sequence[bytes]
    cut: int
    empty: bytes
    error: bytes
    whole: bytes
    refusal: bytes
    done: bytes = DONE
    headers: Mapping[str, str] = field(default_factory=lambda: SSE)

    @property
    def stream(self) -> bytes:
        return b"".join(self.frames) + self.done

    @property
    def opening(self) -> bytes:
        return b"".join(self.frames[: self.cut])


_ERROR = {"message": "slow down", "type": "requests", "param": None, "code": "rate_limit_exceeded"}

CHAT = Answer(
    frames=[data_frame(chunk) for chunk in text_chunks(*TEXT)],
    cut=1 + len(TEXT),
    empty=data_frame(chat_chunk({"content": ""})),
    error=data_frame({"error": _ERROR}),
    whole=dump(whole_chat("".join(TEXT))),
    refusal=dump({"error": _ERROR}),
)
_EVENTS = [
    {"type": event["type"], "sequence_number": number, **event} for number, event in enumerate(text_events(*TEXT))
]
RESPONSES = Answer(
    frames=[named_frame(event) for event in _EVENTS],
    cut=4 + len(TEXT),
    empty=named_frame({**_EVENTS[4], "delta": ""}),
    error=named_frame({**_ERROR, "type": "error", "sequence_number": 7}),
    whole=dump(response_snapshot("completed", [message_item("".join(TEXT))])),
    refusal=dump({"error": _ERROR}),
)
_LIMITED = {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}
ANTHROPIC = Answer(
    frames=[named_frame(event) for event in anthropic.text_events(*TEXT)],
    cut=2 + len(TEXT),
    empty=named_frame({"type": "ping"}),
    error=named_frame(_LIMITED),
    whole=dump(anthropic.message(anthropic.text_block("".join(TEXT)))),
    refusal=dump(_LIMITED),
    done=b"",
)
OLLAMA = Answer(
    frames=[ollama.line(each) for each in (*map(ollama.chunk, TEXT), ollama.last())],
    cut=len(TEXT),
    empty=ollama.line(ollama.chunk()),
    error=ollama.line({"error": "too many requests"}),
    whole=dump(ollama.last(content="".join(TEXT))),
    refusal=dump({"error": "too many requests"}),
    done=b"",
    headers=ollama.LINES,
)
_EXHAUSTED = gemini.error(429, "RESOURCE_EXHAUSTED", "slow down")
GEMINI = Answer(
    frames=[data_frame(each) for each in (*(gemini.chunk(gemini.text(piece)) for piece in TEXT), gemini.last())],
    cut=len(TEXT),
    empty=data_frame(gemini.chunk(gemini.text(""))),
    error=data_frame(_EXHAUSTED),
    whole=dump(gemini.last(gemini.text("".join(TEXT)))),
    refusal=dump(_EXHAUSTED),
    done=b"",
)

HARMONY = Answer(
    frames=[data_frame(each) for each in harmony.text_chunks(*TEXT)],
    cut=3,
    empty=data_frame(harmony.chunk("")),
    error=data_frame(harmony.error(429, "slow down")),
    whole=dump(harmony.whole_text(*TEXT)),
    refusal=dump(harmony.error(429, "slow down")),
    done=b"",
)

ANSWERS: dict[str, Answer] = {
    "chat": CHAT,
    "responses": RESPONSES,
    "anthropic": ANTHROPIC,
    "gemini": GEMINI,
    "harmony": HARMONY,
    "ollama": OLLAMA,
}
"""Dialect -> a sound answer in it."""

Fault = Callable[[Answer], Script]


def _steps(steps: Callable[[bytes], Sequence[Step]]) -> Fault:
    """A fault that does the same after the opening of a stream and after the first half of a JSON body."""

    def break_it(answer: Answer) -> Script:
        half = answer.whole[: len(answer.whole) // 2]
        return either(Reply(headers=answer.headers, body=steps(answer.opening)), Reply(headers=JSON, body=steps(half)))

    return break_it


def _stream(rewrite: Callable[[Answer], bytes | Sequence[Step]]) -> Fault:
    """A fault that only a stream can have; the JSON body is sound."""
    return lambda answer: either(Reply(headers=answer.headers, body=rewrite(answer)), _whole(answer))


def sound(answer: Answer) -> Script:
    """Sends the answer without a fault."""
    return either(Reply(headers=answer.headers, body=[*answer.frames, answer.done]), _whole(answer))


def _whole(answer: Answer) -> Reply:
    return Reply(headers=JSON, body=answer.whole, framing="length")


def _mid_character(answer: Answer) -> Sequence[Step]:
    start = answer.opening.index("ü".encode())
    return [answer.opening[: start + 1], Reset()]


def _status(status: int, **headers: str) -> Fault:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: error_reply(status, f"the upstream says {status}", headers=named)


def _framed(framing_length: Callable[[int], int]) -> Fault:
    def break_it(answer: Answer) -> Script:
        def reply(headers: Mapping[str, str], body: bytes) -> Reply:
            return Reply(
                headers=headers, body=[body, Close()], framing="length", content_length=framing_length(len(body))
            )

        return either(reply(answer.headers, answer.opening), reply(JSON, answer.whole))

    return break_it


def _zipped(answer: Answer) -> Script:
    packed = {"content-encoding": "gzip"}
    return either(
        Reply(headers={**answer.headers, **packed}, body=gzip.compress(answer.stream)),
        Reply(headers={**JSON, **packed}, body=gzip.compress(answer.whole)),
    )


def _zip_bomb(answer: Answer) -> Script:
    packed = gzip.compress(b"data: " + b"0" * 16_000_000)
    return either(
        Reply(headers={**answer.headers, "content-encoding": "gzip"}, body=packed),
        Reply(headers={**JSON, "content-encoding": "gzip"}, body=packed),
    )


def _swapped(answer: Answer) -> Script:
    return either(_whole(answer), Reply(headers=answer.headers, body=answer.stream))


def _mislabelled(answer: Answer) -> Script:
    """The right body under the wrong content type."""
    return either(Reply(headers=JSON, body=answer.stream), Reply(headers=answer.headers, body=answer.whole))


def _html(_: Answer) -> Script:
    return Reply(headers={"content-type": "text/html"}, body=b"<html><body>Bad gateway</body></html>")


def _redirect(_: Answer) -> Script:
    return Reply(302, {"location": "http://localhost:9/v1/elsewhere"}, framing="length")


def _dialect_error(answer: Answer) -> Script:
    return either(
        Reply(headers=answer.headers, body=[answer.opening, answer.error, answer.done]),
        Reply(headers=JSON, body=answer.refusal),
    )


WIRE_FAULTS: dict[str, Fault] = {
    "accepts and sends nothing": lambda _: silence,
    "resets before the headers": lambda _: reset,
    "resets after the headers": _steps(lambda _: [Reset()]),
    "resets between two frames": _steps(lambda opening: [opening, Reset()]),
    "resets in the middle of JSON": _steps(lambda opening: [opening, b'data: {"id"', Reset()]),
    "resets inside a UTF-8 character": _stream(_mid_character),
    "resets inside an HTTP chunk": _steps(lambda opening: [Raw(b"fff\r\n" + opening[:50]), Reset()]),
    "falls silent in the middle": _steps(lambda opening: [opening, Hang()]),
    "drips slower than it may": _steps(lambda opening: [Drip(opening, per=16.0)]),
    "ends the body in the middle of JSON": _steps(lambda opening: [opening, b'data: {"id"']),
    "closes without ending the body": _steps(lambda opening: [opening, Close()]),
    "ends without a finish reason": _stream(lambda answer: answer.opening),
    "ends without saying done": _stream(lambda answer: b"".join(answer.frames)),
    "says done without a finish reason": _stream(lambda answer: answer.opening + DONE),
    "says done twice": _stream(lambda answer: answer.stream + DONE),
    "goes on after done": _stream(lambda answer: answer.stream + answer.frames[2]),
    "stays open after done": _stream(lambda answer: [answer.stream, Hang()]),
    "ends lines with CRLF": _stream(lambda answer: answer.stream.replace(b"\n", b"\r\n")),
    "ends lines with CR": _stream(lambda answer: answer.stream.replace(b"\n", b"\r")),
    "mixes line ends": _stream(
        lambda answer: answer.stream.replace(b"\n\n", b"\r\n\n", 2).replace(b"\n\n", b"\r\r\n", 1)
    ),
    "sends single bytes with CRLF": _stream(lambda answer: [Drip(answer.stream.replace(b"\n", b"\r\n"))]),
    "starts with a byte order mark": _stream(lambda answer: b"\xef\xbb\xbf" + answer.stream),
    "sends comments and other fields": _stream(
        lambda answer: (
            b": hello\n\nretry: 100\nid: 1\n" + answer.stream.replace(b"\n\n", b"\nid: 7\n\n: still here\n\n")
        )
    ),
    "puts JSON on several data lines": _stream(lambda answer: answer.stream.replace(b',"', b',\ndata: "')),
    "leaves no space after the colon": _stream(
        lambda answer: answer.stream.replace(b"data: ", b"data:").replace(b"event: ", b"event:")
    ),
    "sends a line without an end": _stream(lambda _: [b"data: ", Repeat(b"0" * 1024, 20_000), Hang()]),
    "sends many empty deltas": _stream(
        lambda answer: [answer.opening, Repeat(answer.empty, 20_000), *answer.frames[answer.cut :], answer.done]
    ),
    "sends bytes that are not UTF-8": _stream(lambda answer: answer.stream.replace("ü".encode(), b"\xff\xfe")),
    "sends something that is not JSON": _steps(lambda opening: [b"data: {not json}\n\n"]),
    "compresses unasked": _zipped,
    "sends a gzip bomb": _zip_bomb,
    "sends a page of HTML": _html,
    "sends an empty body": _steps(lambda _: []),
    "puts an error inside a 200": _dialect_error,
    "redirects": _redirect,
    "confuses JSON and a stream": _swapped,
    "labels the body wrongly": _mislabelled,
    "lies about the size of a chunk": _steps(lambda opening: [opening, Raw(b"zz\r\nmore\r\n")]),
    "promises more than it sends": _framed(lambda length: length + 100),
    "promises less than it sends": _framed(lambda length: length - 10),
    **{
        f"answers {status}": _status(status)
        for status in (400, 401, 403, 404, 408, 409, 413, 422, 500, 502, 503, 504, 529)
    },
    "answers 429 with seconds to wait": _status(429, retry_after="7"),
    "answers 429 with a date to wait for": _status(429, retry_after="Fri, 31 Dec 2100 23:59:59 GMT"),
}
