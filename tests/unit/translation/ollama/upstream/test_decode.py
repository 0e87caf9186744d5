"""Decodes replies of Ollama's chat API to events."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.support.event_grammar import EventGrammar
from tests.unit.support.golden import GOLDEN, check_events
from tests.unit.support.translator_drivers import collect, counting_ids, decode, every_split
from tests.upstream.ollama import COUNTS, call, chunk, last, line
from translation.errors import ProtocolViolation
from translation.framing.ndjson import LineDecoder
from translation.ollama.upstream.decode import OllamaDecoder
from translation.representation.events import Delta, Event, Failed, Finished, ItemEnded, Opaque, Started, Usage
from translation.representation.json_types import Item
from translation.representation.profile import DEFAULT_PROFILE, Profile

RECORDINGS = sorted((GOLDEN / "ollama").glob("*.ndjson"))
ANSWERS = sorted((GOLDEN / "ollama").glob("*.json"))
TAGS = Profile(parsing_format="think_tags")
OPEN = Profile(parsing_format="think_tags", think_open=True)
USAGE = Usage(input=9, output=3, raw=COUNTS)


def events_of(*chunks: Any, profile: Profile = DEFAULT_PROFILE) -> list[Event]:
    return decode(OllamaDecoder(counting_ids(), profile), chunks)


def texts(*chunks: Any, profile: Profile = DEFAULT_PROFILE) -> list[tuple[str, str]]:
    """Returns (type, text) of each item."""
    return [(item["type"], text_of(item)) for item in collect(events_of(*chunks, profile=profile))]


def text_of(item: Item) -> str:
    if item["type"] == "function_call":
        return f"{item['name']}({item['arguments']})"
    return "".join(part["text"] for part in [*item.get("summary", ()), *item.get("content", ())])


def ending(*chunks: Any, profile: Profile = DEFAULT_PROFILE) -> Finished:
    finished = events_of(*chunks, profile=profile)[-1]
    assert isinstance(finished, Finished)
    return finished


def chunks_of(recording: Path) -> list[Any]:
    lines = LineDecoder()
    payloads = lines.parse_payloads(recording.read_bytes())
    return [orjson.loads(payload) for payload in [*payloads, *(frame.payload for frame in lines.finish())]]


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.stem)
def test_streams_become_their_recorded_events(recording: Path, update_golden: bool) -> None:
    check_events(recording, events_of(*chunks_of(recording)), update=update_golden)


@pytest.mark.parametrize("whole", ANSWERS, ids=lambda path: path.stem)
def test_streams_and_json_replies_give_the_same_events(whole: Path) -> None:
    streamed = events_of(*chunks_of(whole.with_suffix(".ndjson")))
    at_once = events_of(orjson.loads(whole.read_bytes()))
    assert list(map(_without_ids, collect(at_once))) == list(map(_without_ids, collect(streamed)))
    assert at_once[-1] == streamed[-1]


def _without_ids(item: Item) -> Item:
    return {key: value for key, value in item.items() if key not in ("id", "call_id")}


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.stem)
def test_a_stream_may_be_split_anywhere(recording: Path) -> None:
    wire = recording.read_bytes()
    expected = events_of(*chunks_of(recording))
    for reads in list(every_split(wire))[::7]:
        lines, decoder = LineDecoder(), OllamaDecoder(counting_ids())
        events = [event for read in reads for event in decoder.decode_payloads(lines.parse_payloads(read))]
        assert [*events, *decoder.finish()] == expected


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.stem)
def test_a_stream_that_stops_before_it_is_done_fails(recording: Path) -> None:
    chunks = chunks_of(recording)
    for kept in range(len(chunks)):
        *_, failed = events_of(*chunks[:kept])
        assert isinstance(failed, Failed)
        assert failed.code == "upstream_truncated"


def test_thinking_precedes_its_answer() -> None:
    chunks = [chunk(thinking="Hm"), chunk(thinking="m.\n"), chunk("\n"), chunk("\nYes"), chunk("."), last()]
    assert texts(*chunks) == [("reasoning", "Hmm."), ("message", "Yes.")]


def test_thinking_is_a_summary_if_the_profile_says_so() -> None:
    (item,) = collect(events_of(chunk(thinking="Hm."), last(), profile=Profile(reasoning_part="summary_text")))
    assert item["summary"] == [{"type": "summary_text", "text": "Hm."}]


def test_think_tags_in_the_text_are_parsed_if_the_profile_says_so() -> None:
    chunks = [chunk("<thi"), chunk("nk>Hm.</thin"), chunk("k>Yes <"), last()]
    assert texts(*chunks, profile=TAGS) == [("reasoning", "Hm."), ("message", "Yes <")]
    assert texts(*chunks) == [("message", "<think>Hm.</think>Yes <")]


def test_a_thought_that_the_template_opened_ends_at_its_tag() -> None:
    assert texts(chunk("Hm.</think>Yes"), last(), profile=OPEN) == [("reasoning", "Hm."), ("message", "Yes")]


def test_a_server_that_separates_thinking_has_removed_the_open_tag() -> None:
    chunks = [chunk(thinking="Hm."), chunk("Yes"), last()]
    assert texts(*chunks, profile=OPEN) == [("reasoning", "Hm."), ("message", "Yes")]


def test_a_call_is_complete_and_gets_an_id() -> None:
    (item,) = collect(events_of(chunk(tool_calls=[call("f", a=1, b={"ü": [None]})]), last()))
    assert item == {
        "id": "fc_1",
        "type": "function_call",
        "status": "completed",
        "call_id": "tc_1",
        "name": "f",
        "arguments": '{"a":1,"b":{"ü":[null]}}',
    }


def test_ids_of_the_upstream_are_used_and_never_repeated() -> None:
    calls = [call("f", "x"), call("f", "x"), call("f"), {"id": 7, **call("f")}]
    items = collect(events_of(chunk(tool_calls=calls[:1]), chunk(tool_calls=calls[1:]), last()))
    assert [item["call_id"] for item in items] == ["x", "x__2", "tc_1", "tc_2"]


def test_a_turn_with_calls_ends_for_them() -> None:
    finished = ending(chunk("Let me look."), chunk(tool_calls=[call("f")]), last())
    assert (finished.reason, finished.raw_reason) == ("tool_calls", "stop")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "{}"),
        (None, "{}"),
        ("", "{}"),
        (" ", "{}"),
        ('{"a":', '{"a":'),
        ([1], "[1]"),
        ([], "[]"),
        (0, "0"),
        (False, "false"),
    ],
)
def test_arguments_that_are_no_object_are_preserved_unchanged(arguments: Any, text: str) -> None:
    calls = [{"function": {"name": "f", "arguments": arguments}}]
    assert texts(chunk(tool_calls=calls), last()) == [("function_call", f"f({text})")]


def test_a_call_between_texts_stands_between_them() -> None:
    chunks = [chunk("One."), chunk("Two.", tool_calls=[call("f")]), chunk("Three."), last()]
    assert texts(*chunks) == [("message", "One.Two."), ("function_call", "f({})"), ("message", "Three.")]


@pytest.mark.parametrize("entry", [None, "f", {}, {"function": "f"}, {"function": {}}, {"function": {"name": ""}}])
def test_a_call_without_a_name_is_a_failure(entry: Any) -> None:
    events = events_of(chunk("Yes"), {**last(), **chunk(tool_calls=[entry, call("f")])})
    assert events[-1] == Failed("upstream_garbled", "the upstream sent a tool call without a name")


@pytest.mark.parametrize(
    ("said_reason", "reason", "raw"),
    [
        ("stop", "stop", "stop"),
        ("length", "length", "length"),
        ("load", "other", "load"),
        (None, "stop", None),
        ("", "stop", None),
        (3, "stop", None),
    ],
)
def test_the_finish_reason_is_mapped_and_preserved(said_reason: Any, reason: str, raw: str | None) -> None:
    finished = ending(chunk("Yes"), last(said_reason))
    assert (finished.reason, finished.raw_reason) == (reason, raw)


@pytest.mark.parametrize("word", ["load", "unload"])
def test_a_model_that_was_only_loaded_has_not_answered(word: str) -> None:
    message = f"the upstream sent no output and ended with an unknown finish reason: {word}"
    assert events_of(last(word))[-1] == Failed("upstream_error", message, usage=USAGE)


def test_an_answer_at_its_limit_is_incomplete() -> None:
    ended = [event for event in events_of(chunk("Yes"), last("length")) if isinstance(event, ItemEnded)]
    assert [event.status for event in ended] == ["incomplete"]


def test_the_limit_ends_a_turn_for_itself_also_after_calls() -> None:
    assert ending(chunk(tool_calls=[call("f")]), last("length")).reason == "length"


def test_tokens_are_counted_as_far_as_they_are_reported() -> None:
    assert ending(chunk("Yes"), last()).usage == USAGE
    cached = ending(chunk("Yes"), last(counts={"eval_count": 3, "eval_duration": 5})).usage
    assert cached == Usage(output=3, raw={"eval_count": 3, "eval_duration": 5})
    assert ending(chunk("Yes"), last(counts={})).usage is None
    assert ending(chunk("Yes"), last(counts={"eval_count": -1, "prompt_eval_count": "9"})).usage is None
    one = {"eval_count": 3, "prompt_eval_count": -9}
    assert ending(chunk("Yes"), last(counts=one)).usage == Usage(output=3, raw=one)


def test_probabilities_are_on_their_text() -> None:
    told = [{"token": "ü", "logprob": -0.5, "top_logprobs": [{"token": "u", "logprob": -1, "bytes": [117]}, {}, 3]}]
    events = events_of(chunk("ü", logprobs=told), chunk("!", logprobs=[{"token": 1}]), last())
    first, second = (event for event in events if isinstance(event, Delta))
    rival = {"token": "u", "logprob": -1, "bytes": [117]}
    assert first.logprobs == [{"token": "ü", "logprob": -0.5, "bytes": [195, 188], "top_logprobs": [rival]}]
    assert second.logprobs is None


def test_the_start_names_the_model() -> None:
    assert events_of(chunk("Yes"), last())[0] == Started("scripted-model")
    assert events_of({"message": {}, "done": True})[0] == Started("")


def test_an_answer_without_a_message_is_empty() -> None:
    assert [type(event) for event in events_of({"model": "m", "done": True})] == [Started, Finished]


@pytest.mark.parametrize(
    "message", [{"thinking": ["Hm"]}, {"tool_calls": {"name": "f"}}, {"content": {"text": "Yes"}}, {"content": 1}]
)
def test_a_message_of_another_type_breaks_the_protocol(message: Any) -> None:
    with pytest.raises(ProtocolViolation):
        texts({**chunk(), "message": message}, last())


@pytest.mark.parametrize("odd", [[], "text", None, {}, {"message": "Yes"}, {"choices": []}])
def test_an_invalid_chunk_breaks_the_protocol(odd: Any) -> None:
    with pytest.raises(ProtocolViolation):
        OllamaDecoder(counting_ids()).feed(odd)


def test_nothing_follows_the_finish() -> None:
    decoder = OllamaDecoder(counting_ids())
    decoder.decode_payloads([line(chunk("Yes")), line(last()), b"data: [DONE]"])
    assert decoder.feed(chunk("more")) == decoder.finish() == []
    assert decoder.usage == USAGE


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("the input length exceeds the context length", "context_length_exceeded"),
        ("server busy, please try again. maximum pending requests exceeded", "upstream_overloaded"),
        ("you've reached your hourly usage limit", "rate_limited"),
        ("timed out waiting for llama runner to start", "upstream_timeout"),
        ("model requires more system memory (9.0 GiB) than is available (3.1 GiB)", "upstream_error"),
        ({"message": "too many requests"}, "rate_limited"),
    ],
)
def test_an_error_inside_a_stream_is_a_failure_with_a_name(error: Any, code: str) -> None:
    text = error if isinstance(error, str) else error["message"]
    assert events_of(chunk("Yes"), {"error": error})[-1] == Failed(code, text)


def test_an_error_without_a_message_is_an_error() -> None:
    assert events_of({"error": {"code": 5}})[-1] == Failed(
        "upstream_error", "the upstream reported an error without saying which"
    )


def test_messages_about_the_gateways_own_key_are_not_forwarded() -> None:
    assert events_of({"error": "unauthorized: key abc", "signin_url": "https://ollama.com/connect"})[-1] == Failed(
        "upstream_unauthorized", "the upstream refused the gateway's own credentials"
    )


ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
MESSAGES = st.fixed_dictionaries(
    {}, optional={"content": ANYTHING, "thinking": ANYTHING, "tool_calls": st.lists(ANYTHING, max_size=2) | ANYTHING}
)
CHUNKS = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("model", "done", "done_reason", "error", "logprobs", "eval_count"), ANYTHING)
)


def test_text_before_the_first_tag_waits_for_its_kind() -> None:
    assert texts(chunk("Hm."), chunk("</think>Yes"), last(), profile=TAGS) == [("reasoning", "Hm."), ("message", "Yes")]
    separate = chunk("", thinking="Hm.")
    assert texts(chunk("Yes"), separate, last(), profile=TAGS) == [("message", "Yes"), ("reasoning", "Hm.")]
    assert texts(chunk("Yes"), last(), profile=TAGS) == [("message", "Yes")]


@given(st.lists(st.tuples(CHUNKS, MESSAGES | ANYTHING), max_size=5), st.sampled_from([DEFAULT_PROFILE, TAGS, OPEN]))
def test_odd_replies_are_read_in_order_or_break_the_protocol(pairs: list[tuple[Any, Any]], profile: Profile) -> None:
    decoder, grammar = OllamaDecoder(counting_ids(), profile), EventGrammar()
    try:
        for rest, message in pairs:
            grammar.check(decoder.feed({**rest, "message": message}))
        grammar.check(decoder.finish())
        grammar.finish()
    except ProtocolViolation as violation:
        assert "upstream sent" in str(violation)  # noqa: PT017


def test_images_of_the_model_are_items() -> None:
    first, second = collect(events_of(chunk("Here."), chunk(images=["iVBORw0KGgo="]), last()))
    assert (first["type"], second["type"], second["result"]) == ("message", "image_generation_call", "iVBORw0KGgo=")
    items = collect(events_of(chunk("<think>Hm.</think>", images=["aQ=="]), last(), profile=TAGS))
    assert [item["type"] for item in items] == ["reasoning", "image_generation_call"]


@pytest.mark.parametrize("images", [[5], [""], [{"url": "x"}]])
def test_an_image_that_is_none_is_output_without_a_form(images: list[Any]) -> None:
    opaque = [event for event in events_of(chunk("a", images=images), last()) if isinstance(event, Opaque)]
    assert opaque == [Opaque("ollama", {"type": "image"}, is_output=True)]


def test_images_that_are_no_list_are_none() -> None:
    assert texts(chunk("a", images="x"), last()) == [("message", "a")]
