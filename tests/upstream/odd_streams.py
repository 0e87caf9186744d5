"""Streams with odd contents, in every dialect of upstreams, and what clients may conclude of them.

Each holds the answer "Hello", or the call `f({"a": 1})`, in another form than its API has, or an error in another form.
"""

from typing import Any, Final, NamedTuple

from .anthropic import text_events as message_events
from .builders import DONE, data_frame, dump, named_frame, response_snapshot, text_events

Json = dict[str, Any]


class Odd(NamedTuple):
    """A stream, and what every client concludes of it: the text, the calls as (name, arguments), and the end.

    `ending` is `completed`, `incomplete` or `failed`; a reply that is refused before it began has failed too.
    """

    stream: bytes
    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    ending: str = "completed"


_HELLO: Final = "Hello"
_CALL: Final = (("f", '{"a":1}'),)


def _fails(stream: bytes) -> Odd:
    return Odd(stream, ending="failed")


def _chat_chunk(delta: Any = None, finish: Any = None, **choice: Any) -> Json:
    deltas = {} if delta is None else {"delta": delta}
    choices = [{"index": 0, "finish_reason": finish, **deltas, **choice}]
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "u", "choices": choices}


def _chat(*chunks: Json | bytes) -> bytes:
    return b"".join(each if isinstance(each, bytes) else data_frame(each) for each in chunks) + DONE


def _at(index: Any, *chunks: Json) -> list[Json]:
    return [{**each, "choices": [{**each["choices"][0], "index": index}]} for each in chunks]


def _fragment(arguments: Any, name: str | None = None, **entry: Any) -> Json:
    function = {"arguments": arguments} if name is None else {"name": name, "arguments": arguments}
    return _chat_chunk({"tool_calls": [{"type": "function", "function": function, **entry}]})


_HEL: Final = _chat_chunk({"role": "assistant", "content": "Hel"})
_LO: Final = _chat_chunk({"content": "lo"})
_STOP: Final = _chat_chunk({}, "stop")
_CALLED: Final = _chat_chunk({}, "tool_calls")
_UNASKED: Final = _chat_chunk({"content": "NO"})

CHAT_STREAMS: Final[dict[str, Odd]] = {
    "text after the finish reason": Odd(_chat(_HEL, _STOP, _LO), _HELLO),
    "text after the end": Odd(_chat(_HEL, _LO, _STOP) + data_frame(_LO), _HELLO),
    "an end before the finish reason": _fails(data_frame(_HEL) + DONE + _chat(_LO, _STOP)),
    "usage before the text": Odd(
        _chat({**_STOP, "choices": [], "usage": {"prompt_tokens": 1}}, _HEL, _LO, _STOP), _HELLO
    ),
    "usage that is a text": Odd(_chat(_HEL, _LO, {**_STOP, "usage": "many"}), _HELLO),
    "usage that is a list": Odd(_chat(_HEL, _LO, {**_STOP, "usage": [1]}), _HELLO),
    "no choices in the middle": Odd(_chat(_HEL, {**_HEL, "choices": []}, _LO, _STOP), _HELLO),
    "an object of another kind": Odd(_chat(_HEL, {"type": "ping"}, _LO, _STOP), _HELLO),
    "an error that is a text": _fails(_chat(_HEL, {"error": "boom"}, _STOP)),
    "a detail": _fails(_chat(_HEL, {"detail": "boom"}, _LO, _STOP)),
    "a list of details": _fails(_chat(_HEL, {"detail": [{"msg": "boom"}]}, _LO, _STOP)),
    "a code and a message": _fails(_chat(_HEL, {"code": "InvalidParameter", "message": "boom"}, _STOP)),
    "a status and a message": _fails(_chat(_HEL, {"status": 500, "msg": "boom"}, _STOP)),
    "an error by the event's name": _fails(_chat(_HEL, b'event: error\ndata: {"message":"boom"}\n\n', _STOP)),
    "an error that is no JSON": _fails(_chat(_HEL, b"data: Internal Server Error\n\n", _STOP)),
    "an error in a choice": _fails(_chat(_HEL, _chat_chunk(None, None, error={"message": "boom"}), _STOP)),
    "a list of chunks": _fails(b"data: " + dump([_HEL, _LO, _STOP]) + b"\n\n" + DONE),
    "two chunks in a line": _fails(b"data: " + dump(_HEL) + dump(_LO) + b"\n\n" + _chat(_STOP)),
    "only the second choice": _fails(_chat(*_at(1, _HEL, _LO, _STOP))),
    "an end of the second choice": _fails(_chat(_HEL, _LO, *_at(1, _STOP))),
    "a negative index": _fails(_chat(*_at(-1, _HEL, _LO, _STOP))),
    "an index that is true": _fails(_chat(*_at(True, _HEL, _LO, _STOP))),
    "an index that is null": Odd(_chat(*_at(None, _HEL, _LO, _STOP)), _HELLO),
    "an unasked choice in between": Odd(
        _chat(_HEL, *_at(1, _UNASKED), _LO, *_at(1, _UNASKED), _STOP, *_at(1, _STOP)), _HELLO
    ),
    "an unasked choice in each chunk": Odd(
        _chat(*({**each, "choices": each["choices"] + _at(1, _UNASKED)[0]["choices"]} for each in (_HEL, _LO)), _STOP),
        _HELLO,
    ),
    "the choice twice in a chunk": Odd(_chat({**_HEL, "choices": _HEL["choices"] + _LO["choices"]}, _STOP), _HELLO),
    "the text of text completions": _fails(_chat(_chat_chunk(None, text="Hel"), _chat_chunk(None, "stop", text="lo"))),
    "content beside the delta": _fails(_chat(_chat_chunk(None, content=_HELLO), _STOP)),
    "text in place of content": _fails(_chat(_chat_chunk({"text": _HELLO}), _STOP)),
    "indexes of calls that are texts": Odd(
        _chat(
            _fragment('{"a"', "f", index="0", id="1"),
            _fragment('{"b"', "g", index="1", id="2"),
            _fragment(":1}", index="0"),
            _fragment(":2}", index="1"),
            _CALLED,
        ),
        calls=(("f", '{"a":1}'), ("g", '{"b":2}')),
    ),
    "indexes of calls with fractions": Odd(
        _chat(_fragment('{"a"', "f", index=0.0, id="1"), _fragment(":1}", index=0.0), _CALLED), calls=_CALL
    ),
    "calls by their ids": Odd(
        _chat(
            _fragment('{"a"', "f", id="1"),
            _fragment('{"b"', "g", id="2"),
            _fragment(":1}", id="1"),
            _fragment(":2}", id="2"),
            _CALLED,
        ),
        calls=(("f", '{"a":1}'), ("g", '{"b":2}')),
    ),
    "an id that changes": Odd(
        _chat(_fragment('{"a"', "f", index=0, id="1"), _fragment(":1}", index=0, id="2"), _CALLED), calls=_CALL
    ),
    "arguments that are null": Odd(_chat(_fragment(None, "f", index=0, id="1"), _CALLED), calls=(("f", "{}"),)),
    "arguments that are an object": Odd(_chat(_fragment({"a": 1}, "f", index=0, id="1"), _CALLED), calls=_CALL),
    "a call without a name": _fails(_chat(_fragment('{"a":1}', index=0, id="1"), _CALLED)),
    "cut off, and then stopped": Odd(
        _chat(_HEL, _chat_chunk({"content": "lo"}, "length"), _STOP), _HELLO, ending="incomplete"
    ),
    "stopped, and then cut off": Odd(
        _chat(_HEL, _chat_chunk({"content": "lo"}, "stop"), _chat_chunk({}, "length")), _HELLO, ending="incomplete"
    ),
    "reasoning that is true": Odd(_chat(_chat_chunk({"reasoning_content": True}), _HEL, _LO, _STOP), _HELLO),
    "reasoning that is an object": Odd(_chat(_chat_chunk({"reasoning": {"x": 1}}), _HEL, _LO, _STOP), _HELLO),
    "a number as reasoning": Odd(_chat(_chat_chunk({"reasoning_content": 5}), _HEL, _LO, _STOP), _HELLO),
    "a list as reasoning": Odd(_chat(_chat_chunk({"reasoning_content": ["th", "ink"]}), _HEL, _LO, _STOP), _HELLO),
    "a text in an object as reasoning": Odd(
        _chat(_chat_chunk({"reasoning": {"text": "think"}}), _HEL, _LO, _STOP), _HELLO
    ),
    "a refusal that is an object": _fails(_chat(_HEL, _chat_chunk({"refusal": {"a": 1}}), _STOP)),
    "parts in parts": Odd(_chat(_chat_chunk({"content": [["Hel"], "lo"]}), _STOP), _HELLO),
    "NaN": _fails(_chat(_HEL, b'data: {"choices":[{"index":0,"delta":{"content":"lo"},"logprobs":NaN}]}\n\n', _STOP)),
    "a mark before a frame": Odd(_chat(_HEL, b"\xef\xbb\xbf" + data_frame(_LO), _STOP), _HELLO),
    "an indented frame": Odd(_chat(_HEL, b" " + data_frame(_LO), _STOP), _HELLO),
    "a frame in capitals": Odd(_chat(_HEL, data_frame(_LO).replace(b"data", b"DATA"), _STOP), _HELLO),
    "empty frames": Odd(_chat(b"data:\n\n", _HEL, b"data: \n\n", _LO, b"event: ping\ndata:\n\n", _STOP), _HELLO),
    "names of events": Odd(_chat(*(b"event: chunk\n" + data_frame(each) for each in (_HEL, _LO, _STOP))), _HELLO),
    "one line end between frames": _fails(_chat(_HEL, _LO, _STOP).replace(b"\n\n", b"\n")),
    "lines of JSON": _fails(b"\n".join(map(dump, (_HEL, _LO, _STOP))) + b"\n"),
    "a line separator of Unicode": Odd(_chat(_chat_chunk({"content": "Hel\u2028lo"}), _STOP), "Hel\u2028lo"),
    "a finish reason that is empty": _fails(_chat(_HEL, _LO, _chat_chunk({}, ""))),
    "a finish reason that is a number": Odd(_chat(_HEL, _LO, _chat_chunk({}, 5)), _HELLO),
    "chunks without deltas": Odd(_chat(_HEL, _chat_chunk(), _LO, _chat_chunk(None, "stop")), _HELLO),
}

_EVENTS: Final = [{**event, "sequence_number": number} for number, event in enumerate(text_events("Hel", "lo"))]
_KINDS: Final = [event["type"].removeprefix("response.") for event in _EVENTS]
_SECOND: Final = len(_KINDS) - 1 - _KINDS[::-1].index("output_text.delta")
_DONE_PART: Final = _KINDS.index("content_part.done")
_DONE_ITEM: Final = _KINDS.index("output_item.done")


def _events(*events: Json | bytes) -> bytes:
    return b"".join(each if isinstance(each, bytes) else named_frame(each) for each in events)


def _replaced(place: int, **changes: Any) -> bytes:
    return _events(*_EVENTS[:place], {**_EVENTS[place], **changes}, *_EVENTS[place:][1:])


def _ended(**changes: Any) -> bytes:
    return _events(*_EVENTS[:-1], {**_EVENTS[-1], "response": {**_EVENTS[-1]["response"], **changes}})


def _between(*events: Json | bytes) -> bytes:
    return _events(*_EVENTS[:_SECOND], *events, *_EVENTS[_SECOND:])


def _response_call(*deltas: str, arguments: str, **item: Any) -> bytes:
    start = {"type": "function_call", "id": "fc", "call_id": "c1", "name": "f", "arguments": "", **item}
    end = {**start, "arguments": arguments, "status": "completed"}
    place = {"output_index": 0, "item_id": "fc"}
    return _events(
        _EVENTS[0],
        {"type": "response.output_item.added", "output_index": 0, "item": {**start, "status": "in_progress"}},
        *({"type": "response.function_call_arguments.delta", **place, "delta": delta} for delta in deltas),
        {"type": "response.function_call_arguments.done", **place, "arguments": arguments},
        {"type": "response.output_item.done", "output_index": 0, "item": end},
        {"type": "response.completed", "response": response_snapshot("completed", [end])},
    )


_ITEM: Final = _EVENTS[_DONE_ITEM]["item"]

RESPONSES_STREAMS: Final[dict[str, Odd]] = {
    "a delta of a part that the item lacks": _fails(_replaced(_SECOND, content_index=1)),
    "a delta of an item that the output lacks": _fails(_replaced(_SECOND, output_index=1)),
    "no item before its deltas": Odd(
        _events(*(each for each, kind in zip(_EVENTS, _KINDS, strict=True) if not kind.endswith(".added"))), _HELLO
    ),
    "an end of another name": _fails(_replaced(len(_EVENTS) - 1, type="response.done")),
    "completed with an error": _fails(_ended(error={"code": "server_error", "message": "boom"})),
    "completed with a status of failure": _fails(
        _ended(status="failed", error={"code": "server_error", "message": "boom"})
    ),
    "completed with a reason why it is not": Odd(
        _ended(incomplete_details={"reason": "max_output_tokens"}), _HELLO, ending="incomplete"
    ),
    "a status that is null": Odd(_ended(status=None), _HELLO),
    "no output": Odd(_ended(output=None), _HELLO),
    "output that is an object": _fails(_ended(output={"0": 1})),
    "output with a number": _fails(_ended(output=[5])),
    "a part that is a number": _fails(_replaced(_DONE_PART, part=5)),
    "an item whose content is a text": _fails(_replaced(_DONE_ITEM, item={**_ITEM, "content": _HELLO})),
    "an item with a part that is a number": _fails(_replaced(_DONE_ITEM, item={**_ITEM, "content": [5]})),
    "an error": _fails(_events(*_EVENTS[:_SECOND], {"type": "error", "message": "boom"})),
    "an error without a type": _fails(_between(b'data: {"error":{"message":"boom"}}\n\n')),
    "a detail": _fails(_between(b'data: {"detail":"boom"}\n\n')),
    "an error by the event's name": _fails(_between(b'event: error\ndata: {"message":"boom"}\n\n')),
    "a delta twice": _fails(_between(_EVENTS[_SECOND - 1])),
    "two ends": Odd(_events(*_EVENTS, _EVENTS[-1]), _HELLO),
    "a delta after the end": Odd(_events(*_EVENTS, _EVENTS[_SECOND]), _HELLO),
    "no names of events": Odd(b"".join(map(data_frame, _EVENTS)), _HELLO),
    "another name of an event": Odd(
        _events(*_EVENTS[:_SECOND], b"event: x\n" + data_frame(_EVENTS[_SECOND]), *_EVENTS[_SECOND + 1 :]), _HELLO
    ),
    "a mark before a frame": Odd(_between(b"\xef\xbb\xbf"), _HELLO),
    "empty frames": Odd(_between(b"data:\n\n", b"event: x\ndata: \n\n"), _HELLO),
    "a call without a name": _fails(_response_call('{"a":1}', arguments='{"a":1}', name=None)),
    "a call whose name is empty": _fails(_response_call('{"a":1}', arguments='{"a":1}', name="")),
    "arguments that end otherwise": _fails(_response_call('{"a"', arguments='{"b":1}')),
    "arguments that end with more": Odd(_response_call('{"a"', arguments='{"a":1}'), calls=_CALL),
}

_MESSAGE: Final = list(message_events("Hel", "lo"))
_MESSAGE_KINDS: Final = [event["type"] for event in _MESSAGE]
_LAST_DELTA: Final = len(_MESSAGE) - 1 - _MESSAGE_KINDS[::-1].index("content_block_delta")
_BLOCK_END: Final = _MESSAGE_KINDS.index("content_block_stop")
_END: Final = _MESSAGE_KINDS.index("message_delta")


def _message(place: int, **changes: Any) -> bytes:
    return _events(*_MESSAGE[:place], {**_MESSAGE[place], **changes}, *_MESSAGE[place:][1:])


def _in_message(*events: Json | bytes) -> bytes:
    return _events(*_MESSAGE[:_LAST_DELTA], *events, *_MESSAGE[_LAST_DELTA:])


def _tool_use(*pieces: Any, start: Json | None = None) -> bytes:
    block = {"type": "tool_use", "id": "t1", "name": "f", "input": start or {}}
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return _events(
        _MESSAGE[0],
        {"type": "content_block_start", "index": 0, "content_block": block},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    )


def _stopped(reason: str | None) -> Json:
    return {**_MESSAGE[_END], "delta": {"stop_reason": reason}}


MESSAGES_STREAMS: Final[dict[str, Odd]] = {
    "a delta of another block": _fails(_message(_LAST_DELTA, index=1)),
    "a delta after the end of its block": _fails(
        _events(*_MESSAGE[: _BLOCK_END + 1], _MESSAGE[_LAST_DELTA], *_MESSAGE[_BLOCK_END + 1 :])
    ),
    "no end of the block": Odd(_events(*_MESSAGE[:_BLOCK_END], *_MESSAGE[_BLOCK_END + 1 :]), _HELLO),
    "no end of the message": Odd(_events(*_MESSAGE[:-1]), _HELLO),
    "no stop reason": _fails(_message(_END, delta={"stop_reason": None})),
    "stopped, and then cut off": Odd(
        _events(*_MESSAGE[:_END], _stopped("end_turn"), _stopped("max_tokens"), _MESSAGE[-1]),
        _HELLO,
        ending="incomplete",
    ),
    "cut off, and then stopped": Odd(
        _events(*_MESSAGE[:_END], _stopped("max_tokens"), _stopped("end_turn"), _MESSAGE[-1]),
        _HELLO,
        ending="incomplete",
    ),
    "a text that is null": _fails(_message(_LAST_DELTA, delta={"type": "text_delta", "text": None})),
    "a text that is a number": _fails(_message(_LAST_DELTA, delta={"type": "text_delta", "text": 5})),
    "an error": _fails(_in_message({"type": "error", "error": {"type": "overloaded_error", "message": "boom"}})),
    "an error without a type": _fails(_in_message(b'data: {"error":{"message":"boom"}}\n\n')),
    "an error by the event's name": _fails(_in_message(b'event: error\ndata: {"message":"boom"}\n\n')),
    "a detail": _fails(_in_message(b'data: {"detail":"boom"}\n\n')),
    "an event without a type": _fails(_in_message(b'data: {"x":1}\n\n')),
    "a text at the beginning of the block": Odd(
        _message(_MESSAGE_KINDS.index("content_block_start"), content_block={"type": "text", "text": "Oh, "}),
        "Oh, Hello",
    ),
    "input at the beginning of the block": Odd(_tool_use(start={"a": 1}), calls=_CALL),
    "the same input twice": Odd(_tool_use('{"a": 1}', start={"a": 1}), calls=_CALL),
    "two inputs": _fails(_tool_use('{"a": 2}', start={"a": 1})),
    "input that is an object": _fails(_tool_use({"a": 1})),
    "usage that is a text": Odd(_message(_END, usage="x"), _HELLO),
    "a second beginning": _fails(_events(_MESSAGE[0], *_MESSAGE)),
    "no names of events": Odd(b"".join(map(data_frame, _MESSAGE)), _HELLO),
    "a mark before a frame": Odd(_in_message(b"\xef\xbb\xbf"), _HELLO),
    "empty frames": Odd(_in_message(b"data:\n\n"), _HELLO),
}


def _candidate(*parts: Any, finish: Any = None, **content: Any) -> Json:
    candidate = {"index": 0, "content": {"role": "model", "parts": list(parts), **content}}
    return {"candidates": [candidate | ({"finishReason": finish} if finish else {})], "modelVersion": "m"}


def _gemini(*chunks: Json | bytes) -> bytes:
    return b"".join(each if isinstance(each, bytes) else data_frame(each) for each in chunks)


_GEMINI_HEL: Final = _candidate({"text": "Hel"})
_GEMINI_LO: Final = _candidate({"text": "lo"}, finish="STOP")


def _alone(content: Any) -> bytes:
    return _gemini({"candidates": [{"content": content, "finishReason": "STOP"}]})


GEMINI_STREAMS: Final[dict[str, Odd]] = {
    "text after the finish reason": Odd(
        _gemini(_candidate({"text": "Hel"}, finish="STOP"), _candidate({"text": "lo"})), _HELLO
    ),
    "stopped, and then cut off": Odd(
        _gemini(_candidate({"text": "Hel"}, finish="STOP"), _candidate({"text": "lo"}, finish="MAX_TOKENS")),
        _HELLO,
        ending="incomplete",
    ),
    "cut off, and then stopped": Odd(
        _gemini(_candidate({"text": "Hel"}, finish="MAX_TOKENS"), _GEMINI_LO), _HELLO, ending="incomplete"
    ),
    "a text that is a number": _fails(_gemini(_GEMINI_HEL, _candidate({"text": 5}), _candidate(finish="STOP"))),
    "a text that is null": Odd(_gemini(_GEMINI_HEL, _candidate({"text": None}), _GEMINI_LO), _HELLO),
    "parts that are an object": _fails(_alone({"parts": {"text": _HELLO}})),
    "parts that are a text": _fails(_alone({"parts": _HELLO})),
    "content that is a text": _fails(_alone(_HELLO)),
    "content that is a list": _fails(_alone([{"parts": [{"text": _HELLO}]}])),
    "candidates that are an object": _fails(_gemini({"candidates": {"content": {"parts": [{"text": _HELLO}]}}})),
    "a list of chunks": _fails(dump([_GEMINI_HEL, _GEMINI_LO])),
    "an error": _fails(_gemini(_GEMINI_HEL, {"error": {"code": 500, "message": "boom"}}, _GEMINI_LO)),
    "a detail": _fails(_gemini(_GEMINI_HEL, {"detail": "boom"}, _GEMINI_LO)),
    "a code and a message": _fails(_gemini(_GEMINI_HEL, {"code": 500, "message": "boom"}, _GEMINI_LO)),
    "blocked in the middle": _fails(_gemini(_GEMINI_HEL, {"promptFeedback": {"blockReason": "SAFETY"}}, _GEMINI_LO)),
    "arguments that are a text": Odd(
        _gemini(_candidate({"functionCall": {"name": "f", "args": '{"a":1}'}}, finish="STOP")), calls=_CALL
    ),
    "a call that is a text": _fails(_gemini(_candidate({"functionCall": "f"}, finish="STOP"))),
    "a call in pieces": _fails(
        _gemini(
            _candidate({"functionCall": {"name": "f", "willContinue": True}}),
            _candidate({"functionCall": {}}, finish="STOP"),
        )
    ),
    "no candidates": _fails(_gemini({"usageMetadata": {"promptTokenCount": 1}})),
    "no candidates at the beginning": Odd(_gemini({"candidates": []}, _GEMINI_HEL, _GEMINI_LO), _HELLO),
    "names in another case": _fails(_gemini({"candidates": [{"content": {"parts": []}, "finish_reason": "STOP"}]})),
    "a mark before a frame": Odd(_gemini(_GEMINI_HEL, b"\xef\xbb\xbf", _GEMINI_LO), _HELLO),
}


def _line(content: Any = "", *, done: Any = False, **more: Any) -> Json:
    message = {"role": "assistant", "content": content, **more}
    return {"model": "m", "message": message, "done": done, **({"done_reason": "stop"} if done else {})}


def _lines(*lines: Json | bytes) -> bytes:
    return b"".join(each if isinstance(each, bytes) else dump(each) + b"\n" for each in lines)


_LAST: Final = _line(done=True)

OLLAMA_STREAMS: Final[dict[str, Odd]] = {
    "content that is null": Odd(_lines(_line("Hel"), _line(None), _line("lo"), _LAST), _HELLO),
    "content that is a number": _fails(_lines(_line("Hel"), _line(5), _LAST)),
    "content that is a list": _fails(_lines(_line([_HELLO]), _LAST)),
    "a message that is a text": _fails(_lines({"model": "m", "message": _HELLO, "done": True})),
    "the form of the other endpoint": _fails(_lines({"model": "m", "response": _HELLO, "done": False}, _LAST)),
    "the other form at the end": _fails(_lines(_line("Hel"), {"model": "m", "response": "lo", "done": True})),
    "text after the end": Odd(_lines(_line("Hel"), _line("lo"), _LAST, _line("lo")), _HELLO),
    "two lines in one": _fails(dump(_line("Hel")) + dump(_line("lo")) + b"\n" + _lines(_LAST)),
    "an error": _fails(_lines(_line("Hel"), {"error": "boom"})),
    "a detail": _fails(_lines(_line("Hel"), {"detail": "boom"}, _line("lo"), _LAST)),
    "events": _fails(b"".join(map(data_frame, (_line("Hel"), _line("lo"), _LAST)))),
    "calls that are an object": _fails(_lines(_line(tool_calls={"function": {"name": "f", "arguments": {}}}), _LAST)),
    "calls that are a text": _fails(_lines(_line(tool_calls="f"), _LAST)),
    "arguments that are a text": Odd(
        _lines(_line(tool_calls=[{"function": {"name": "f", "arguments": '{"a":1}'}}]), _LAST), calls=_CALL
    ),
    "thinking that is a number": _fails(_lines(_line(_HELLO, thinking=5), _LAST)),
    "thinking that is a list": _fails(_lines(_line(_HELLO, thinking=["x"]), _LAST)),
    "lines with CRLF": Odd(_lines(_line("Hel"), _line("lo"), _LAST).replace(b"\n", b"\r\n"), _HELLO),
    "no end": _fails(_lines(_line(_HELLO))),
    "NaN": _fails(_lines(_line(_HELLO)) + b'{"model":"m","message":{"content":""},"done":true,"x":NaN}\n'),
}

ODD_STREAMS: Final = {
    "chat": CHAT_STREAMS,
    "responses": RESPONSES_STREAMS,
    "anthropic": MESSAGES_STREAMS,
    "gemini": GEMINI_STREAMS,
    "ollama": OLLAMA_STREAMS,
}
"""Dialect of an upstream -> its odd streams."""
