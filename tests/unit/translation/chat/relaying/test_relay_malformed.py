"""A malformed chunk in the middle of a chat stream never reads as success: the reply fails, or the client gets what the
chunk says. That holds for relayed and for translated replies."""

from itertools import count
from typing import Any

import orjson
import pytest

from translation.chat.relaying.choices import ChunkForm
from translation.chat.relaying.chunk_identity import OwnCompletion
from translation.chat.relaying.relay import ChatRelay
from translation.chat.upstream.decode import ChatDecoder
from translation.errors import ProtocolViolation
from translation.representation.events import Delta, Event, Failed, Opaque


def chunk(delta: Any, finish_reason: str | None = None, **choice: Any) -> Any:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish_reason, **choice}]
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "u", "choices": choices}


def call(**entry: Any) -> Any:
    return chunk({"tool_calls": [{"index": 0, "id": "a", **entry}]})


FAILING: dict[str, Any] = {
    "calls that are a text": chunk({"tool_calls": "x"}),
    "calls that are a number": chunk({"tool_calls": 5}),
    "a call that is a number": chunk({"tool_calls": [1]}),
    "a legacy call that is a number": chunk({"function_call": 5}),
    "a function that is a number": call(function=3),
    "a function whose name is a number": call(function={"name": 5, "arguments": "{}"}),
    "a custom tool that is a text": call(type="custom", custom="x"),
    "choices that are an object": {**chunk({}), "choices": {}},
    "choices that are a text": {**chunk({}), "choices": "x"},
    "a choice that is a number": {**chunk({}), "choices": [1]},
    "a delta that is a text": chunk("x"),
    "a delta that is a list": chunk([1]),
    "an index that is a text": chunk({"content": "x"}, index="a"),
    "an index that is a list": chunk({"content": "x"}, index=[0]),
    "a list": [1],
    "a number": 5,
}

READ: dict[str, tuple[Any, str]] = {
    "content that is a number": (chunk({"content": 5}), "5"),
    "a refusal that is a number": (chunk({"refusal": 5}), "5"),
    "content that is a list": (chunk({"content": [{"type": "text", "text": "x"}]}), "x"),
    "a reason that is empty": (chunk({"content": "x"}, ""), "x"),
    "log probabilities that are a number": (chunk({"content": "x"}, logprobs=5), "x"),
}

WITHOUT_CONTENT: dict[str, Any] = {
    "no choices": {"id": "c", "object": "chat.completion.chunk"},
    "no delta": {**chunk({}), "choices": [{"index": 0}]},
    "a delta that is null": chunk(None),
    "calls that are null": chunk({"tool_calls": [None]}),
}


def build_stream(malformed: Any) -> list[bytes]:
    before = [chunk({"role": "assistant", "content": "Hel"}), chunk({"content": "lo"})]
    return [orjson.dumps(each) for each in (*before, malformed, chunk({"content": " there"}), chunk({}, "stop"))]


def relay(malformed: Any) -> tuple[ChatRelay, bytes]:
    own = OwnCompletion("m", {"id": "own", "created": 1, "model": "m"})
    relayed = ChatRelay(own, ChunkForm(frozenset({"reasoning_content"})))
    sent = b"".join(relayed.feed(b"data: %b\n\n" % each) for each in [*build_stream(malformed), b"[DONE]"])
    return relayed, sent + relayed.finish()


def decode(malformed: Any) -> list[Event]:
    numbers = count()
    decoder = ChatDecoder(lambda prefix: f"{prefix}_{next(numbers)}")
    return [*decoder.decode_payloads(build_stream(malformed)), *decoder.finish()]


@pytest.mark.parametrize("malformed", FAILING.values(), ids=FAILING)
def test_a_malformed_chunk_fails_the_reply(malformed: Any) -> None:
    relayed, sent = relay(malformed)
    assert relayed.failed is not None
    assert relayed.failed.code == "upstream_garbled"
    assert b"there" not in sent
    with pytest.raises(ProtocolViolation):
        decode(malformed)


@pytest.mark.parametrize(("malformed", "text"), READ.values(), ids=READ)
def test_a_chunk_of_another_form_is_read(malformed: Any, text: str) -> None:
    relayed, sent = relay(malformed)
    assert relayed.failed is None
    assert b":%b" % orjson.dumps(text) in sent
    texts = [event.text for event in decode(malformed) if isinstance(event, Delta)]
    assert texts == ["Hel", "lo", text, " there"]


@pytest.mark.parametrize("malformed", WITHOUT_CONTENT.values(), ids=WITHOUT_CONTENT)
def test_a_chunk_without_content_is_no_failure(malformed: Any) -> None:
    relayed, sent = relay(malformed)
    assert relayed.failed is None
    assert b" there" in sent
    assert not any(isinstance(event, Failed) for event in decode(malformed))


@pytest.mark.parametrize(
    ("delta", "texts"), [({"role": 5}, []), ({"content": True}, ["True"])], ids=["role", "content"]
)
def test_a_value_of_another_type_fails_a_relay(delta: Any, texts: list[str]) -> None:
    """Clients of other APIs do not get the role, and get the value as a text."""
    assert relay(chunk(delta))[0].failed is not None
    assert [event.text for event in decode(chunk(delta)) if isinstance(event, Delta)] == ["Hel", "lo", *texts, " there"]


def test_an_object_as_content_fails_a_relay_and_is_reported_elsewhere() -> None:
    """A content part that is not in a list, of a type that is not known: its API may have a form for it."""
    malformed = chunk({"content": {"type": "hologram"}})
    assert relay(malformed)[0].failed is not None
    assert [event for event in decode(malformed) if isinstance(event, Opaque) and event.is_output]
