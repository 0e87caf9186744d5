"""Turns as events, and what a chat client reads of them."""

from collections.abc import Sequence

import orjson
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import TypeAdapter

from tests.unit.support.event_grammar import EventGrammar
from translation.representation import items
from translation.representation.events import (
    Annotated,
    Delta,
    Event,
    Failed,
    Finished,
    ItemEnded,
    ItemStarted,
    Noted,
    Opaque,
    PartEnded,
    PartStarted,
    Progressed,
    Started,
    Usage,
)
from translation.representation.json_types import Item, Json

CHUNK = TypeAdapter(ChatCompletionChunk)
COMPLETION = TypeAdapter(ChatCompletion)

LOGPROB: Json = {"token": "x", "logprob": -0.5, "bytes": [120], "top_logprobs": []}
CITED: Json = {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1}
FILE_CITED: Json = {"type": "file_citation", "file_id": "f", "filename": "n", "index": 0}
DETAILS: list[Json] = [{"type": "reasoning.encrypted", "data": "x"}]
USAGE = Usage(input=10, output=5, cache_read=3, cache_write=2, reasoning=1)


def turn(*events: Event | list[Event], end: Event | None = None) -> list[Event]:
    """The events between Started and the end, checked against the grammar."""
    whole: list[Event] = [Started("upstream-model", "up_1")]
    for event in events:
        whole += event if isinstance(event, list) else [event]
    whole.append(end or Finished("stop"))
    grammar = EventGrammar()
    grammar.check(whole)
    grammar.finish()
    return whole


def part(index: int, part_index: int, start: Json, *texts: str) -> list[Event]:
    deltas = [Delta(index, part_index, text) for text in texts]
    return [PartStarted(index, part_index, start), *deltas, PartEnded(index, part_index)]


def text(index: int, *texts: str) -> list[Event]:
    started = ItemStarted(index, items.new_message(f"msg_{index}"))
    return [started, *part(index, 0, items.new_output_text(), *texts), ItemEnded(index)]


def thought(index: int, *texts: str) -> list[Event]:
    started = ItemStarted(index, items.new_reasoning(f"rs_{index}"))
    return [started, *part(index, 0, items.new_reasoning_text(), *texts), ItemEnded(index)]


def call(index: int, name: str, *arguments: str) -> list[Event]:
    started = ItemStarted(index, items.new_function_call(f"fc_{index}", call_id=f"call_{index}", name=name))
    return [started, *(Delta(index, None, piece) for piece in arguments), PartEnded(index, None), ItemEnded(index)]


def custom_call(index: int, name: str, *pieces: str) -> list[Event]:
    item: Item = {
        "id": f"ctc_{index}",
        "type": "custom_tool_call",
        "call_id": f"call_{index}",
        "name": name,
        "input": "",
    }
    return [
        ItemStarted(index, item),
        *(Delta(index, None, piece) for piece in pieces),
        PartEnded(index, None),
        ItemEnded(index),
    ]


def whole(index: int, item: Item) -> list[Event]:
    return [ItemStarted(index, item), ItemEnded(index, item)]


WHOLE_CALL: Item = {**items.new_function_call("fc_0", call_id="call_0", name="f"), "arguments": "{}"}

TURNS: dict[str, list[Event]] = {
    "a text": turn(text(0, "Hel", 'lo "you"\n', "é\u2028🙂")),
    "nothing at all": turn(),
    "a text that was cut": turn(text(0, "a"), end=Finished("length")),
    "a text that was filtered": turn(text(0, "a"), end=Finished("content_filter")),
    "a text that ended in a way of its own": turn(text(0, "a"), end=Finished("other", "repetition")),
    "a text that ended for no reason": turn(text(0, "a"), end=Finished("other")),
    "two texts": turn(text(0, "a"), text(1, "b")),
    "a text and a refusal": turn(
        ItemStarted(0, items.new_message("msg_0")),
        part(0, 0, items.new_output_text(), "a"),
        part(0, 1, items.new_refusal(), "n", "o"),
        ItemEnded(0),
    ),
    "reasoning, then text": turn(thought(0, "h", "m"), text(1, "a")),
    "reasoning only": turn(thought(0, "hm")),
    "raw reasoning cut by text is one text": turn(thought(0, "a"), text(1, "x"), thought(2, "b")),
    "summaries are paragraphs": turn(
        ItemStarted(0, items.new_reasoning("rs_0")),
        part(0, 0, items.new_summary_text(), "a", "b"),
        part(0, 1, items.new_summary_text()),
        part(0, 2, items.new_summary_text(), "c"),
        ItemEnded(0),
        ItemStarted(1, items.new_reasoning("rs_1")),
        part(1, 0, items.new_summary_text(), "d"),
        ItemEnded(1),
    ),
    "parts of raw reasoning are paragraphs": turn(
        ItemStarted(0, items.new_reasoning("rs_0")),
        part(0, 0, items.new_reasoning_text(), "a"),
        part(0, 1, items.new_reasoning_text(), "b"),
        ItemEnded(0),
    ),
    "reasoning with details": turn(
        thought(0, "a")[:-1],
        ItemEnded(
            0, {**items.new_reasoning("rs_0"), "content": [{"type": "reasoning_text", "text": "a"}], "details": DETAILS}
        ),
        whole(1, {**items.new_reasoning("rs_1"), "details": DETAILS}),
    ),
    "a call": turn(call(0, "f", '{"a"', ":1}"), end=Finished("tool_calls")),
    "a call without any field": turn(call(0, "f", "{}"), end=Finished("stop")),
    "a call that was cut": turn(call(0, "f", '{"a'), end=Finished("length")),
    "a word of calls without a call": turn(text(0, "a"), end=Finished("tool_calls")),
    "a text, then calls": turn(text(0, "a"), call(1, "f", "{}"), call(2, "g", "[]")),
    "interleaved calls": turn(
        call(0, "f")[:1],
        call(1, "g")[:1],
        Delta(1, None, "[]"),
        Delta(0, None, "{}"),
        call(0, "f")[1:],
        call(1, "g")[1:],
    ),
    "a custom call": turn(custom_call(0, "c", "x", "y")),
    "calls of both kinds": turn(call(0, "f", "{}"), custom_call(1, "c", "x")),
    "items that came whole": turn(
        whole(0, {**items.new_reasoning("rs_0"), "summary": [{"type": "summary_text", "text": "a"}]}),
        whole(
            1,
            {
                **items.new_message("msg_1"),
                "status": "completed",
                "content": [
                    {**items.new_output_text(), "text": "b", "annotations": []},
                    {**items.new_output_text(), "text": ""},
                    {"type": "new", "text": "c"},
                ],
            },
        ),
        whole(2, WHOLE_CALL),
    ),
    "arguments that came only at the end": turn(
        ItemStarted(0, {**WHOLE_CALL, "arguments": ""}),
        PartEnded(0, None),
        ItemEnded(0, WHOLE_CALL),
    ),
    "logprobs": turn(
        ItemStarted(0, items.new_message("msg_0")),
        PartStarted(0, 0, items.new_output_text()),
        Delta(0, 0, "x", [LOGPROB]),
        Delta(0, 0, "y", [LOGPROB]),
        PartEnded(0, 0),
        PartStarted(0, 1, items.new_refusal()),
        Delta(0, 1, "x", [LOGPROB]),
        PartEnded(0, 1),
        ItemEnded(0),
    ),
    "logprobs of reasoning are not the answer's": turn(
        ItemStarted(0, items.new_reasoning("rs_0")),
        PartStarted(0, 0, items.new_reasoning_text()),
        Delta(0, 0, "x", [LOGPROB]),
        PartEnded(0, 0),
        ItemEnded(0),
    ),
    "citations": turn(
        text(0, "a")[:-2],
        Annotated(0, 0, CITED),
        Annotated(0, 0, FILE_CITED),
        text(0)[-2:],
    ),
    "a citation of an empty text": turn(text(0)[:-2], Annotated(0, 0, CITED), text(0)[-2:]),
    "citations of a later message": turn(
        thought(0, "hm"),
        text(1, "I ", "search", ". "),
        whole(2, {"id": "ws_2", "type": "web_search_call", "status": "completed"}),
        text(3, "a", "b")[:-2],
        Annotated(3, 0, CITED),
        Annotated(3, 0, FILE_CITED),
        text(3)[-2:],
    ),
    "what chat has no word for": turn(
        whole(0, {"id": "ws_0", "type": "web_search_call", "status": "completed"}),
        ItemStarted(1, {"id": "ci_1", "type": "code_interpreter_call"}),
        Progressed(1, "interpreting"),
        Delta(1, None, "print()"),
        Delta(1, None, "print()"),
        PartEnded(1, None),
        ItemEnded(1),
        Opaque("responses", {"type": "x"}),
        ItemStarted(2, items.new_message("msg_2")),
        part(2, 0, {"type": "new"}, "x"),
        part(2, 1, {}, "x"),
        part(2, 2, items.new_output_text(), "a"),
        ItemEnded(2),
    ),
    "facts learnt late": turn(
        Noted(facts={"service_tier": "flex"}),
        text(0, "a", "b")[:-2],
        Noted(facts={"system_fingerprint": "fp", "service_tier": "ultrafast", "x": 1}),
        Delta(0, 0, "c"),
        Noted(facts={"system_fingerprint": "fp"}),
        Delta(0, 0, "d"),
        text(0)[-2:],
    ),
    "usage at the end": turn(text(0, "a"), Noted(usage=Usage(1, 1)), end=Finished("stop", usage=USAGE)),
    "usage on the way": turn(text(0, "a"), Noted(usage=USAGE), Noted()),
    "usage without details": turn(text(0, "a"), Noted(usage=Usage(1, 0))),
    "usage by half": turn(text(0, "a"), Noted(usage=Usage(input=3))),
}

FAILED = Failed("rate_limited", "slow down", param="p", usage=USAGE)


def read_stream(stream: bytes) -> list[Json]:
    """The chunks of a whole stream, each valid for the official SDK; the last frame must be [DONE]."""
    *frames, done, rest = stream.split(b"\n\n")
    assert (done, rest) == (b"data: [DONE]", b"")
    chunks = [orjson.loads(frame.removeprefix(b"data: ")) for frame in frames]
    for chunk in chunks:
        CHUNK.validate_python(_remove_fields_unknown_to_the_sdk(chunk), strict=True)
    return chunks


def _remove_fields_unknown_to_the_sdk(chunk: Json) -> Json:
    """The SDK's chunk type has no custom calls and no failed streams, though the API streams both."""
    known: Json = orjson.loads(orjson.dumps(chunk))
    for choice in known["choices"]:
        if choice["finish_reason"] == "error":
            choice["finish_reason"] = None
        for tool_call in choice["delta"].get("tool_calls") or ():
            if tool_call.get("type") == "custom":
                del tool_call["type"]
    return known


def accumulate(chunks: Sequence[Json]) -> Json:
    """The message, logprobs and ending a client adds up from a stream."""
    message: Json = {}
    choice: Json = {"logprobs": None}
    calls: dict[int, Json] = {}
    for chunk in chunks:
        for streamed in chunk["choices"]:
            for key, value in streamed["delta"].items():
                if key == "tool_calls":
                    for piece in value:
                        _merge(calls.setdefault(piece["index"], {}), {k: v for k, v in piece.items() if k != "index"})
                elif isinstance(value, list):
                    message[key] = message.get(key, []) + value
                elif isinstance(value, dict):
                    _merge(message.setdefault(key, {}), value)
                elif key == "role" or message.get(key) is None:
                    message[key] = value
                else:
                    message[key] += value
            for key, tokens in (streamed["logprobs"] or {}).items():
                choice["logprobs"] = choice["logprobs"] or {"content": None, "refusal": None}
                if tokens:
                    choice["logprobs"][key] = (choice["logprobs"][key] or []) + tokens
            choice |= {key: streamed[key] for key in streamed if key.endswith("finish_reason") and streamed[key]}
    assert list(calls) == list(range(len(calls))), "calls are numbered from 0 in order of appearance"
    if calls:
        message["tool_calls"] = list(calls.values())
    return {"index": 0, "message": {"content": None, "refusal": None, **message}, **choice}


def _merge(call: Json, piece: Json) -> None:
    for key, value in piece.items():
        if isinstance(value, dict):
            _merge(call.setdefault(key, {}), value)
        else:
            call[key] = call.get(key, "") + value
