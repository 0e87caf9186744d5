"""A completion in another form than requested is converted without loss."""

import time
from typing import Any

import orjson
import pytest

from tests.unit.support.chat_replies import CHUNK, COMPLETION, LOGPROB, read_stream
from translation.chat.reply_forms import build_completion, build_completion_stream
from translation.framing import sse

Json = dict[str, Any]

HEAD = {"id": "chatcmpl-1", "created": 7, "model": "m"}
USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}


def choice(index: int = 0, finish_reason: str = "stop", logprobs: Json | None = None, **message: Any) -> Json:
    said = {"role": "assistant", "content": None, **message}
    whole = {"index": index, "message": said, "finish_reason": finish_reason}
    return whole if logprobs is None else {**whole, "logprobs": logprobs}


def call(name: str, arguments: str) -> Json:
    return {"id": f"call_{name}", "type": "function", "function": {"name": name, "arguments": arguments}}


COMPLETIONS: dict[str, Json] = {
    "text": {"choices": [choice(content="Hello")], "usage": USAGE},
    "several choices": {"choices": [choice(content="one"), choice(1, "length", content="two")]},
    "two calls": {"choices": [choice(finish_reason="tool_calls", tool_calls=[call("f", "{}"), call("g", '{"a":1}')])]},
    "reasoning and its details": {
        "choices": [choice(content="4", reasoning="2+2", reasoning_details=[{"type": "reasoning.text", "text": "2+2"}])]
    },
    "log probabilities": {"choices": [choice(content="x", logprobs={"content": [LOGPROB], "refusal": None})]},
    "facts of its own": {"choices": [choice(content="x")], "system_fingerprint": "fp_1", "provider": "somebody"},
}


@pytest.mark.parametrize("more", COMPLETIONS.values(), ids=COMPLETIONS)
def test_a_completion_survives_both_ways(more: Json) -> None:
    completion = {**HEAD, "object": "chat.completion", **more}
    COMPLETION.validate_python(completion)
    stream = build_completion_stream(completion)
    for chunk in read_stream(stream):
        CHUNK.validate_python(chunk)
    assert build_completion(stream) == completion


def chunks(*deltas: Json, **last: Any) -> bytes:
    spoken = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    rows = [*spoken, {"index": 0, "delta": {}, "finish_reason": "stop", **last}]
    return b"".join(sse.encode_data(orjson.dumps({**HEAD, "choices": [row]})) for row in rows) + sse.DONE_FRAME


PIECES: dict[str, tuple[list[Json], Json]] = {
    "details of reasoning keep the name of their form": (
        [
            {"reasoning_details": [{"type": "reasoning.text", "text": "a", "format": "x-v1", "index": 0}]},
            {"reasoning_details": [{"type": "reasoning.text", "text": "b", "format": "x-v1", "index": 0}]},
        ],
        {
            "content": None,
            "reasoning_details": [{"type": "reasoning.text", "text": "ab", "format": "x-v1", "index": 0}],
        },
    ),
    "texts are joined": (
        [{"role": "assistant", "content": ""}, {"content": "Hel"}, {"content": "lo"}],
        {"content": "Hello"},
    ),
    "a repeated role is sent once": (
        [{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}],
        {"content": "ab"},
    ),
    "calls are distinguished by their index": (
        [
            {"tool_calls": [{"index": 0, **call("f", "")}]},
            {"tool_calls": [{"index": 1, **call("g", "{")}]},
            {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]},
            {"tool_calls": [{"index": 1, "function": {"arguments": "}"}}]},
        ],
        {"content": None, "tool_calls": [call("f", "{}"), call("g", "{}")]},
    ),
    "a null takes nothing back": ([{"content": "a"}, {"content": None}], {"content": "a"}),
    "entries without an index follow each other": (
        [{"annotations": [1]}, {"annotations": [2]}],
        {"content": None, "annotations": [1, 2]},
    ),
    "pieces of an audio are joined": (
        [
            {"audio": {"id": "audio_1", "data": "AA", "transcript": "Hel"}},
            {"audio": {"id": "audio_1", "data": "BB", "transcript": "lo"}},
        ],
        {"content": None, "audio": {"id": "audio_1", "data": "AABB", "transcript": "Hello"}},
    ),
    "the address of an image is whole": (
        [{"images": [{"index": 0, "image_url": {"url": "data:,a"}}]}] * 2,
        {"content": None, "images": [{"index": 0, "image_url": {"url": "data:,a"}}]},
    ),
    "a text that no API streams is the latest": (
        [{"service": "a"}, {"service": "a"}],
        {"content": None, "service": "a"},
    ),
    "what is neither text nor list is the latest": (
        [{"audio": {"expires_at": 1}}, {"audio": {"expires_at": 2}}],
        {"content": None, "audio": {"expires_at": 2}},
    ),
}


@pytest.mark.parametrize(("deltas", "message"), PIECES.values(), ids=PIECES)
def test_a_stream_adds_up(deltas: list[Json], message: Json) -> None:
    completion = build_completion(chunks(*deltas))
    assert completion["choices"] == [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}]


STREAMED: list[tuple[str, ...]] = [
    *(("content",), ("refusal",), ("reasoning",), ("reasoning_content",)),
    *(("tool_calls", "function", "arguments"), ("tool_calls", "custom", "input"), ("function_call", "arguments")),
    *(("reasoning_details", "text"), ("reasoning_details", "summary"), ("reasoning_details", "data")),
    *(("audio", "data"), ("audio", "transcript")),
]
REPEATED: list[tuple[str, ...]] = [
    *(("role",), ("name",), ("tool_calls", "id"), ("tool_calls", "type"), ("tool_calls", "function", "name")),
    *(("tool_calls", "extra_content", "signature"), ("reasoning_details", "signature"), ("audio", "id")),
]


def nest(path: tuple[str, ...], text: str) -> Json:
    """Returns a delta with a text at this path. Calls and details are entries of lists."""
    value: Any = text
    for key in reversed(path):
        value = {key: [{"index": 0, **value}] if key in ("tool_calls", "reasoning_details") else value}
    return dict(value)


@pytest.mark.parametrize("path", [*STREAMED, *REPEATED], ids=".".join)
def test_texts_that_are_streamed_are_joined_and_others_replaced(path: tuple[str, ...]) -> None:
    (choice,) = build_completion(chunks(nest(path, "a"), nest(path, "b")))["choices"]
    value = choice["message"]
    for key in path:
        value = value[0] if isinstance(value, list) else value
        value = value[key]
    assert value == ("ab" if path in STREAMED else "b")


@pytest.mark.parametrize("key", ["finish_reason", "native_finish_reason"])
def test_a_reason_that_is_repeated_is_the_last(key: str) -> None:
    rows: list[Json] = [{"index": 0, "delta": {}, key: reason} for reason in ("stop", "length", "length", None)]
    frames = b"".join(sse.encode_data(orjson.dumps({"choices": [row]})) for row in rows)
    assert build_completion(frames)["choices"][0][key] == "length"


NO_COMPLETIONS: dict[str, Json] = {
    "no choices": {},
    "choices that are no list": {"choices": 7},
    "a choice that is no object": {"choices": [7]},
    "a choice without a message": {"choices": [{"index": 0}]},
}


@pytest.mark.parametrize("answer", NO_COMPLETIONS.values(), ids=NO_COMPLETIONS)
def test_an_invalid_completion_is_left_to_the_reader_of_the_stream(answer: Json) -> None:
    [chunk] = [
        orjson.loads(payload) for payload in sse.FrameDecoder().parse_payloads(build_completion_stream(answer))[:-1]
    ]
    assert chunk["choices"] == answer.get("choices")


def test_texts_and_lists_of_deltas_add_up() -> None:
    deltas: list[Json] = [
        {"content": "a", "tool_calls": [{"index": 0, "function": {"arguments": "{"}}, "odd"], "x": {"t": "1"}},
        {"content": "b", "tool_calls": [{"index": 0, "function": {"arguments": "}"}}, {"index": 1}], "x": {"t": "2"}},
        {"content": "c", "tool_calls": [{"index": 1, "id": "d"}, {"no": "index"}], "x": {"t": "3"}},
        {"content": ["no text"]},
    ]
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    frames = b"".join(sse.encode_data(orjson.dumps(chunk)) for chunk in chunks[:3])
    message = build_completion(frames)["choices"][0]["message"]
    assert message["content"] == "abc"
    assert message["x"] == {"t": "3"}
    assert message["tool_calls"] == [
        {"function": {"arguments": "{}"}},
        "odd",
        {"id": "d"},
        {"no": "index"},
    ]
    frames += sse.encode_data(orjson.dumps(chunks[3]))
    assert build_completion(frames)["choices"][0]["message"]["content"] == ["no text"]


def test_a_long_stream_is_merged_in_linear_time() -> None:
    long = [{"choices": [{"index": 0, "delta": {"content": "x" * 4_000_000}}]}]
    deltas = [
        {"choices": [{"index": 0, "delta": {"content": "y", "tool_calls": [{"index": n}]}}]} for n in range(9_000)
    ]
    frames = b"".join(sse.encode_data(orjson.dumps(chunk)) for chunk in long + deltas)
    begin = time.thread_time()
    message = build_completion(frames)["choices"][0]["message"]
    assert time.thread_time() - begin < 1
    assert (len(message["content"]), len(message["tool_calls"])) == (4_009_000, 9_000)
