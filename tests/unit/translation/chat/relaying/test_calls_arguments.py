"""Arguments on a chat relay: JSON is taken out of its fence, unreadable arguments are left and reported."""

from typing import Any

import orjson
import pytest

from tests.unit.support.chat_chunks import chunk, completion
from tests.unit.support.golden import chunks_of
from tests.unit.support.translator_drivers import fail_to_end, feed_to_end
from tests.unit.translation.chat.relaying.test_calls import added_up, delta, entry, relayed
from translation.chat.relaying.choices import ChunkForm
from translation.chat.relaying.chunk_identity import OwnCompletion
from translation.chat.relaying.relay import ChatRelay
from translation.chat.relaying.whole_completion import relay_completion
from translation.framing import sse
from translation.hygiene.call_tracker import CallRules
from translation.representation.events import Failed
from translation.representation.json_types import Json

RULES = CallRules(max_args_bytes=30)
NOT_JSON = "the arguments are not valid JSON"
NO_OBJECT = "the arguments are not an object"
TOO_LONG = "the arguments are longer than 30 bytes"

SAID: dict[str, tuple[list[str], str, str | None]] = {
    "an object": (['{"x"', ":1}"], '{"x":1}', None),
    "an object after blanks": (["\n ", "{}"], "\n {}", None),
    "a fence": (['```json\n{"x":1}\n```'], '{"x":1}', None),
    "a fence in pieces": (["`", '``\n{"x"', ":1}\n`", "``"], '{"x":1}', None),
    "a fence after blanks": ([" ", "```", '{"x":1}```'], ' {"x":1}', None),
    "a fence around no object": (["```", "[1]```"], "```[1]```", NOT_JSON),
    "a fence that is not closed": (["```", '{"x":1}'], '```{"x":1}', NOT_JSON),
    "half an object": (['{"x"', ":"], '{"x":', NOT_JSON),
    "a list": (["[1]"], "[1]", NO_OBJECT),
    "an object that is too long": (['{"x":"', "y" * 30, '"}'], '{"x":"' + "y" * 30 + '"}', TOO_LONG),
    "a fence that is too long": (["```", '{"x":"' + "y" * 30 + '"}```'], '{"x":"' + "y" * 30 + '"}', TOO_LONG),
    "nothing": ([""], "{}", None),
    "blanks": (["  "], "  {}", None),
}


def expected_warnings(why: str | None) -> list[Json] | None:
    return None if why is None else [{"name": "f", "why": why}]


@pytest.mark.parametrize(("pieces", "arguments", "why"), SAID.values(), ids=SAID)
def test_a_stream_has_arguments(pieces: list[str], arguments: str, why: str | None) -> None:
    chunks = relayed(delta(entry(0, "a", "f", "")), *(delta(entry(0, text=piece)) for piece in pieces), rules=RULES)
    assert added_up(chunks) == [("a", "f", arguments)]
    *before, last = chunks
    assert last.get("tool_warnings") == expected_warnings(why)
    assert not any("tool_warnings" in each for each in before)


@pytest.mark.parametrize(("pieces", "arguments", "why"), SAID.values(), ids=SAID)
def test_a_json_reply_has_arguments(pieces: list[str], arguments: str, why: str | None) -> None:
    answer = completion({"content": None, "tool_calls": [entry(None, "a", "f", "".join(pieces))]}, "tool_calls")
    told = relay_completion(answer, model=None, reasoning_fields=frozenset(), call_rules=RULES)
    said = told["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
    assert said.strip() == arguments.strip()
    assert told.get("tool_warnings") == expected_warnings(why)


def test_every_unreadable_call_is_reported() -> None:
    calls = [entry(0, "a", "f", "?"), entry(1, "b", "g", "{}"), entry(2, "c", "h", "[]")]
    warnings = [{"name": "f", "why": NOT_JSON}, {"name": "h", "why": NO_OBJECT}]
    assert relayed(delta(*calls))[-1]["tool_warnings"] == warnings
    answer = completion({"content": None, "tool_calls": calls}, "tool_calls")
    assert relay_completion(answer, model=None, reasoning_fields=frozenset())["tool_warnings"] == warnings


def test_choices_are_reported_one_after_the_other() -> None:
    relay = ChatRelay(OwnCompletion(None, {}), ChunkForm(frozenset(), choice_count=2))

    def of(choice: int, **said: Any) -> bytes:
        return sse.encode_data(orjson.dumps({**chunk(), "choices": [{"index": choice, "delta": {}, **said}]}))

    begun = [of(choice, delta=delta(entry(0, "a", name, "?"))) for choice, name in enumerate("fg")]
    ended = [of(choice, finish_reason="tool_calls") for choice in range(2)]
    *_, first, second = chunks_of(feed_to_end(relay, b"".join([*begun, *ended]) + sse.DONE_FRAME))
    assert first["tool_warnings"] == [{"name": "f", "why": NOT_JSON}]
    assert second["tool_warnings"] == relay.warnings == [{"name": name, "why": NOT_JSON} for name in "fg"]


def test_a_truncated_call_has_its_partial_arguments_and_no_warning() -> None:
    last = relayed(delta(entry(0, "a", "f", '```{"x"')), finish="length")[-1]
    assert last["choices"][0]["delta"]["tool_calls"] == [{"index": 0, "function": {"arguments": '```{"x"'}}]
    assert "tool_warnings" not in last
    answer = completion({"content": None, "tool_calls": [entry(None, "a", "f", '```{"x"')]}, "length")
    assert "tool_warnings" not in relay_completion(answer, model=None, reasoning_fields=frozenset())


@pytest.mark.parametrize(
    ("text", "rest"), [('```{"x"', {"arguments": '```{"x"'}), ("{", None)], ids=["a fence", "none"]
)
def test_a_call_that_breaks_off_has_its_partial_arguments(text: str, rest: Json | None) -> None:
    relay = ChatRelay(OwnCompletion(None, {}), ChunkForm(frozenset()))
    relay.feed(sse.encode_data(orjson.dumps(chunk(delta(entry(0, "a", "f", text))))))
    [last] = chunks_of(fail_to_end(relay, Failed("upstream_error", "it broke")))
    assert last["choices"][0]["delta"] == ({} if rest is None else delta({"index": 0, "function": rest}))
    assert last["error"]["code"] == "upstream_error"


def test_arguments_without_a_fence_are_relayed_byte_for_byte() -> None:
    relay = ChatRelay(OwnCompletion(None, {}), ChunkForm(frozenset()))
    wire = b"".join(
        sse.encode_data(orjson.dumps(each))
        for each in [
            chunk(delta(entry(0, "a", "f", ""))),
            chunk(delta(entry(0, text=" "))),
            chunk(delta(entry(0, text='{"x":"`"'))),
            chunk(delta(entry(0, text="}"))),
            chunk(finish="tool_calls"),
        ]
    )
    assert feed_to_end(relay, wire + sse.DONE_FRAME) == wire + sse.DONE_FRAME
