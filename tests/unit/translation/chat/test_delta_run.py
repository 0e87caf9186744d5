"""Delta runs: what is learnt from the first chunk, and how other chunks are recognized."""

import json
from collections.abc import Callable

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.support.chat_chunks import chunk, text_chunk
from tests.unit.support.translator_drivers import counting_ids
from translation.chat.delta_run import ChatDeltaRun
from translation.chat.upstream.decode import ChatDecoder
from translation.errors import ProtocolViolation
from translation.framing.sse import FrameDecoder, encode_data
from translation.representation.events import Delta, Event
from translation.representation.json_types import Json
from translation.representation.profile import Profile


def run_of(payload: bytes, text: str) -> ChatDeltaRun:
    run = ChatDeltaRun.from_delta(payload, "content", Delta(0, 0, text))
    assert run is not None
    return run


HELLO = orjson.dumps(text_chunk("Hello"))


@given(st.text(min_size=1))
def test_the_text_of_a_chunk_of_the_run_equals_the_parsed_one(text: str) -> None:
    assert run_of(HELLO, "Hello").read_payload_texts([orjson.dumps(text_chunk(text))] * 2) == [text, text]


def test_a_space_after_the_colon_is_learnt_too() -> None:
    payload = b'{"choices": [{"delta": {"content": "a"}}]}'
    assert run_of(payload, "a").read_payload_texts([payload.replace(b'"a"', b'"b \\u00e9"')]) == ["b é"]


@given(st.lists(st.text(), min_size=1))
def test_the_texts_of_frames_of_the_run_equal_the_parsed_ones(texts: list[str]) -> None:
    read = b"".join(encode_data(orjson.dumps(text_chunk(text))) for text in texts)
    assert run_of(HELLO, "Hello").parse_texts(read) == [text for text in texts if text]


FRAME = encode_data(HELLO)

NOT_ONLY_FRAMES_LIKE_IT: dict[str, bytes] = {
    "another chunk": encode_data(HELLO.replace(b"chunk", b"chunk2")),
    "another chunk in between": FRAME + encode_data(orjson.dumps(chunk({"content": "Hello"}, "stop"))) + FRAME,
    "a comment in between": FRAME + b": alive\n\n" + FRAME,
    "an end": FRAME + b"data: [DONE]\n\n",
    "half a frame": FRAME + FRAME[:-20],
    "other line ends": FRAME.replace(b"\n", b"\r\n"),
    "no space after the colon": FRAME.replace(b"data: ", b"data:"),
    "a line end in the text": FRAME.replace(b"Hello", b"Hel\nlo"),
    "not UTF-8": FRAME.replace(b"Hello", b"\xff"),
    "not UTF-8 in one of two": FRAME + FRAME.replace(b"Hello", b"\xff"),
    "a bare quote": FRAME.replace(b"Hello", b'Hel"lo'),
    "a bare quote in one of two": FRAME + FRAME.replace(b"Hello", b'Hel"lo'),
    "a list of texts in one of two": FRAME + FRAME.replace(b"Hello", b'a",["b"],"c'),
    "an escaped end in one of two": FRAME.replace(b"Hello", b"Hello\\") + FRAME,
    "nothing": b"",
}


@pytest.mark.parametrize("read", NOT_ONLY_FRAMES_LIKE_IT.values(), ids=NOT_ONLY_FRAMES_LIKE_IT)
def test_any_other_read_has_to_be_split_into_frames(read: bytes) -> None:
    assert run_of(HELLO, "Hello").parse_texts(read) is None


NOT_LIKE_IT: dict[str, bytes] = {
    "another id": HELLO.replace(b"chunk", b"chunk2"),
    "a finish reason": orjson.dumps(chunk({"content": "Hello"}, "stop")),
    "one more key in the delta": HELLO.replace(b'"Hello"', b'"Hello","refusal":"x"'),
    "an escaped end": HELLO.replace(b'"Hello"', b'"Hello\\"'),
    "not UTF-8": HELLO.replace(b"Hello", b"\xff"),
    "no text at all": b'{"choices":[]}',
    "shorter than what surrounds the text": HELLO[:-10],
}


@pytest.mark.parametrize("payload", NOT_LIKE_IT.values(), ids=NOT_LIKE_IT)
def test_any_other_chunk_has_to_be_parsed(payload: bytes) -> None:
    assert run_of(HELLO, "Hello").read_payload_texts([HELLO, payload, HELLO]) == ["Hello"]


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b'{"x":1}', "a"),
        (b'{"content":"a","x":{"content":"a"}}', "a"),
        (b'{"content":["a"]}', "a"),
    ],
    ids=["no such field", "the field twice", "a list of texts"],
)
def test_from_ambiguous_bytes_no_run_is_learnt(payload: bytes, text: str) -> None:
    assert ChatDeltaRun.from_delta(payload, "content", Delta(0, 0, text)) is None


@pytest.mark.parametrize(
    "escaped", [b'"\\u0061\\""', b'"a\\""'], ids=["escaped where it need not be", "escaped where it has to be"]
)
def test_a_run_is_learnt_whichever_escapes_the_upstream_uses(escaped: bytes) -> None:
    run = run_of(b'{"content":%b,"x":"\\"y"}' % escaped, 'a"')
    assert run.read_payload_texts([b'{"content":"\\u00e9\\ud83d\\ude00\\n","x":"\\"y"}']) == ["é😀\n"]


def dump_with_escapes(value: object) -> bytes:
    """JSON as Python's standard library writes it: with escapes for every character beyond ASCII."""
    return json.dumps(value, separators=(",", ":")).encode()


def events_of(chunks: list[Json], *, as_bytes: bool, dump: Callable[[object], bytes] = orjson.dumps) -> list[Event]:
    decoder = ChatDecoder(counting_ids())
    if as_bytes:
        return decoder.decode_payloads([dump(each) for each in chunks]) + decoder.finish()
    return [event for each in chunks for event in decoder.feed(each)] + decoder.finish()


def events_of_reads(chunks: list[Json], frames_per_read: int, dump: Callable[[object], bytes]) -> list[Event]:
    """Decodes reads as providers do: reads of a run directly, the rest split into frames."""
    decoder, frames = ChatDecoder(counting_ids()), FrameDecoder()
    encoded = [encode_data(dump(each)) for each in chunks]
    events: list[Event] = []
    for start in range(0, len(encoded), frames_per_read):
        read = b"".join(encoded[start : start + frames_per_read])
        run = decoder.delta_run if frames.at_boundary else None
        texts = None if run is None else run.parse_texts(read)
        events += (
            decoder.decode_payloads(frames.parse_payloads(read))
            if run is None or texts is None
            else run.take_texts(texts)
        )
    return events + decoder.finish()


def arguments(*pieces: str) -> list[Json]:
    """Returns the chunks of a call whose arguments come in these pieces, all in the same form."""
    begins = {"index": 0, "id": "x", "type": "function", "function": {"name": "f", "arguments": ""}}
    further = [chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}) for piece in pieces]
    return [chunk({"tool_calls": [begins]}), *further, chunk(finish="tool_calls")]


STREAMS: dict[str, list[Json]] = {
    "text alone": [
        text_chunk("a"),
        text_chunk("b"),
        text_chunk('"'),
        text_chunk("\\"),
        text_chunk("é🚀"),
        chunk(finish="stop"),
    ],
    "empty texts in between": [text_chunk("a"), text_chunk("b"), text_chunk(""), text_chunk("c"), chunk(finish="stop")],
    "text after reasoning": [
        chunk({"reasoning": "r"}),
        text_chunk("\n\na"),
        text_chunk("\nb"),
        text_chunk("c"),
        chunk({"reasoning": "s"}),
        text_chunk("d"),
        chunk(finish="stop"),
    ],
    "reasoning with line breaks": [
        *(
            chunk({"reasoning_content": text})
            for text in ("\n", "a", "b", "\n", "\n\n", "c\n", "é", "😀", "", "d\r\n", "\n")
        ),
        text_chunk("\n"),
        text_chunk("\ne\n"),
        text_chunk("\n"),
        chunk(finish="stop"),
    ],
    "reasoning that ends with line breaks": [
        *(chunk({"reasoning": text}) for text in ("a", "b", "c\n", "\n")),
        chunk(finish="stop"),
    ],
    "reasoning after another field of it that is empty": [
        chunk({"role": "assistant"}),
        chunk({"reasoning_content": ""}),
        *(chunk({"reasoning": text}) for text in "abc"),
        chunk(finish="stop"),
    ],
    "a refusal in between": [
        text_chunk("a"),
        text_chunk("b"),
        chunk({"refusal": "no"}),
        text_chunk("c"),
        chunk(finish="stop"),
    ],
    "a call in between": [
        text_chunk("a"),
        text_chunk("b"),
        chunk({"tool_calls": [{"index": 0, "id": "x", "function": {"name": "f", "arguments": "{}"}}]}),
        text_chunk("c"),
        chunk(finish="stop"),
    ],
    "a role in every delta": [*(chunk({"role": "assistant", "content": text}) for text in "abc"), chunk(finish="stop")],
    "facts that change": [
        text_chunk("a"),
        {**text_chunk("b"), "service_tier": "flex"},
        text_chunk("c"),
        chunk(finish="stop"),
    ],
    "arguments, then all of them again": arguments('{"a"', ":", ' "b"', "}", '{"a": "b"}'),
    "arguments, then all of them again as a JSON text": arguments('{"a"', ":", ' "b"', "}", '"{\\"a\\": \\"b\\"}"'),
    "arguments with objects in objects": arguments('{"a"', ": ", '{"b": ', "{}", ', "c": ', '"{}"', "}}"),
    "a truncated stream": [text_chunk("a"), text_chunk("b")],
    "an error in the middle": [text_chunk("a"), text_chunk("b"), {"error": {"message": "no"}}],
    "text after the finish reason": [
        text_chunk("a"),
        text_chunk("b"),
        chunk(finish="stop"),
        text_chunk("c"),
        text_chunk("d"),
    ],
}


@pytest.mark.parametrize("dump", [orjson.dumps, dump_with_escapes])
@pytest.mark.parametrize("chunks", STREAMS.values(), ids=STREAMS)
def test_reading_bytes_gives_the_events_that_parsing_each_chunk_gives(
    chunks: list[Json], dump: Callable[[object], bytes]
) -> None:
    parsed = events_of(chunks, as_bytes=False)
    assert events_of(chunks, as_bytes=True, dump=dump) == parsed
    for frames_per_read in (1, 2, 3, len(chunks)):
        assert events_of_reads(chunks, frames_per_read, dump) == parsed


@pytest.mark.parametrize("name", [name for name in STREAMS if name.startswith("arguments, then")])
@pytest.mark.parametrize("frames_per_read", [1, 2, 3, 100])
def test_arguments_that_are_repeated_in_a_run_are_there_once(name: str, frames_per_read: int) -> None:
    events = events_of_reads(STREAMS[name], frames_per_read, orjson.dumps)
    assert "".join(event.text for event in events if isinstance(event, Delta)) == '{"a": "b"}'


class ParsingDecoder(ChatDecoder):
    """Reads every chunk as if it could hold anything."""

    __slots__ = ()

    def _single_text(self, chunk: Json) -> None:
        return None

    def _learn_delta_run_of_arguments(self, *_: object) -> None:
        return None


def decode_until_failure(decoder: ChatDecoder, chunks: list[Json], frames_per_read: int) -> list[object]:
    """Returns the events, with consecutive texts of one place joined, and at the end what is raised."""
    events: list[Event] = []
    end: list[object] = []
    payloads = [orjson.dumps(each) for each in chunks]
    try:
        for start in range(0, len(payloads), frames_per_read):
            decoder.decode_payloads(payloads[start : start + frames_per_read], events)
        events += decoder.finish()
    except ProtocolViolation as violation:
        end.append(str(violation))
    joined: list[object] = []
    for event in events:
        match event, joined[-1] if joined else None:
            case Delta(index, part_index, text, None), Delta(last_index, last_part, before, None) if (
                index,
                part_index,
            ) == (last_index, last_part):
                joined[-1] = Delta(index, part_index, before + text)
            case _:
                joined.append(event)
    return joined + end


WORDS = st.sampled_from(["a", "b\n", "\n", " ", "", "é", '{"a"', ":1", "}", '{"a":1}', '"{}"', "{"])
TEXT_FIELDS = st.sampled_from(["content"] * 8 + ["reasoning_content", "reasoning"])
EXTRAS_OF_DELTAS = st.sampled_from(
    [
        {"role": "assistant"},
        {"refusal": "no"},
        {"content": None},
        {"text": "t"},
        {"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
        {"images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}}]},
        {"tool_calls": [{"index": 0, "id": "x", "function": {"name": "f", "arguments": ""}}]},
        {"tool_calls": [{"index": 1, "id": "y", "function": {"name": "g", "arguments": "{}"}}]},
        {"function_call": {"name": "f", "arguments": "{}"}},
        {"unknown": "u"},
    ]
)
EXTRAS_OF_CHOICES = st.sampled_from(
    [
        {"message": {"role": "assistant", "content": "a"}},
        {"message": {"content": ""}},
        {"message": {}},
        {"message": "a"},
        {"usage": {"prompt_tokens": 1, "completion_tokens": 2}},
        {"logprobs": {"content": [{"token": "a", "logprob": -1.0, "bytes": None, "top_logprobs": []}]}},
        {"error": {"message": "no"}},
        {"index": 1},
        {"finish_reason": "stop"},
        {"stop_reason": "a"},
        {"text": "t"},
    ]
)
EXTRAS_OF_CHUNKS = st.sampled_from(
    [
        {"usage": {"prompt_tokens": 3}},
        {"usage": None},
        {"service_tier": "flex"},
        {"error": {"message": "no"}},
        {"id": "d"},
    ]
)
TEXT_CHUNKS = st.builds(lambda field, word: chunk({field: word}), TEXT_FIELDS, WORDS)
ARGUMENT_CHUNKS = WORDS.map(lambda word: chunk({"tool_calls": [{"index": 0, "function": {"arguments": word}}]}))


@st.composite
def odd_chunks(draw: st.DrawFn) -> Json:
    """A chunk with something that is rare in one of its objects."""
    made = draw(TEXT_CHUNKS | ARGUMENT_CHUNKS)
    choice = made["choices"][0]
    place, extras = draw(
        st.sampled_from([(made, EXTRAS_OF_CHUNKS), (choice, EXTRAS_OF_CHOICES), (choice["delta"], EXTRAS_OF_DELTAS)])
    )
    place.update(draw(extras))
    return made


@given(
    chunks=st.lists(st.one_of(TEXT_CHUNKS, TEXT_CHUNKS, ARGUMENT_CHUNKS, ARGUMENT_CHUNKS, odd_chunks()), max_size=24),
    frames_per_read=st.sampled_from([1, 2, 30]),
)
def test_chunks_that_are_not_parsed_give_the_events_of_parsed_ones(chunks: list[Json], frames_per_read: int) -> None:
    chunks = [chunk({"role": "assistant"}), *chunks, chunk(finish="stop")]
    parsed = decode_until_failure(ParsingDecoder(counting_ids()), chunks, frames_per_read)
    assert decode_until_failure(ChatDecoder(counting_ids()), chunks, frames_per_read) == parsed


def test_a_run_of_reasoning_outlasts_line_breaks() -> None:
    decoder = ChatDecoder(counting_ids())
    decoder.decode_payloads([orjson.dumps(chunk({"role": "assistant"})), orjson.dumps(chunk({"reasoning": "a"}))])
    run = decoder.delta_run
    texts = ("b\n", "\n", "c")
    assert run is not None
    assert decoder.decode_payloads([orjson.dumps(chunk({"reasoning": text})) for text in texts]) == [
        Delta(0, 0, "b"),
        Delta(0, 0, "\n\nc"),
    ]
    assert decoder.delta_run is run


def test_a_delta_run_is_read_without_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = ChatDecoder(counting_ids())
    decoder.decode_payloads([orjson.dumps(chunk({"role": "assistant"})), orjson.dumps(text_chunk("a"))])
    payload = orjson.dumps(text_chunk("c"))
    monkeypatch.setattr(decoder, "feed", None)
    assert decoder.decode_payloads([payload, payload]) == [Delta(0, 0, "c"), Delta(0, 0, "c")]
    assert decoder.delta_run is not None
    assert (decoder.delta_run.text_key, decoder.delta_run.parse_texts(encode_data(payload) * 3)) == ((0, 0), ["c"] * 3)


def called(**function: str) -> Json:
    return {"tool_calls": [{"index": 0, "function": function}]}


CALL = chunk({"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}]})
ARGUMENTS = chunk(called(arguments='{"a"'))


@pytest.mark.parametrize(
    ("last", "learnt"),
    [
        (ARGUMENTS, True),
        ({**ARGUMENTS, "usage": {"prompt_tokens": 1, "completion_tokens": 1}}, False),
        (chunk({**called(arguments='{"a"'), "refusal": None}), False),
        (chunk(called(arguments='{"a"'), finish="tool_calls"), False),
    ],
    ids=["arguments", "arguments and usage", "arguments and another field", "arguments and the end"],
)
def test_arguments_are_a_run_where_a_chunk_has_nothing_else(last: Json, learnt: bool) -> None:
    decoder = ChatDecoder(counting_ids())
    decoder.decode_payloads([orjson.dumps(each) for each in (chunk({"role": "assistant"}), CALL, last)])
    assert (decoder.delta_run is not None) == learnt


def test_a_run_is_learnt_once_thinking_at_the_beginning_of_the_text_is_over() -> None:
    decoder = ChatDecoder(counting_ids(), Profile(parsing_format="leading_think_tags"))
    runs = []
    for text in ("<think>", "hm", "</think>", "y", "e", "s"):
        decoder.decode_payloads([orjson.dumps(text_chunk(text))])
        runs.append(decoder.delta_run is not None)
    assert runs == [False, False, False, True, True, True]


@pytest.mark.parametrize("count", [1, 2, 7, 8, 20])
@pytest.mark.parametrize("ends", [True, False])
def test_a_read_is_learnt_from_by_its_last_chunk_or_by_its_first_if_it_is_long(count: int, ends: bool) -> None:
    payloads = [orjson.dumps(text_chunk(f" word{number}")) for number in range(count)]
    last = [orjson.dumps(chunk({}, "stop"))] if ends else []
    whole, piecewise = ChatDecoder(counting_ids()), ChatDecoder(counting_ids())
    for decoder in (whole, piecewise):
        decoder.decode_payloads([orjson.dumps(chunk({"role": "assistant", "content": ""}))])
    events = whole.decode_payloads([*payloads, *last])
    assert events == [event for payload in (*payloads, *last) for event in piecewise.decode_payloads([payload])]
    assert (whole.delta_run is None) == ends
    assert [*events, *whole.finish()][-1] == piecewise.finish()[-1]
