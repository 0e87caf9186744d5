"""The final value of a text decides: what its deltas lack is sent, and a contradiction is a failure."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.support.translator_drivers import counting_ids
from translation.errors import ProtocolViolation
from translation.representation.events import Delta, Event
from translation.responses.upstream.decode import ResponsesDecoder

Json = dict[str, Any]

CREATED: Json = {"type": "response.created", "response": {"id": "r", "model": "m"}}
PLACE: Json = {"output_index": 0, "item_id": "i", "content_index": 0}
ARGUMENTS: Json = {"output_index": 0, "item_id": "i"}


def message(text: str) -> Json:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"id": "i", "type": "message", "role": "assistant", "status": "completed", "content": [part]}


def call(arguments: str) -> Json:
    return {"id": "i", "type": "function_call", "call_id": "c", "name": "f", "arguments": arguments}


def ended_by_item(item: Json) -> Json:
    return {"type": "response.output_item.done", "output_index": 0, "item": item}


def ended_by_response(item: Json) -> Json:
    return {"type": "response.completed", "response": {"status": "completed", "output": [item]}}


ENDS: dict[str, tuple[bool, Callable[[str], Json]]] = {
    "the text's end": (True, lambda text: {"type": "response.output_text.done", **PLACE, "text": text}),
    "the part's end": (
        True,
        lambda text: {"type": "response.content_part.done", **PLACE, "part": message(text)["content"][0]},
    ),
    "the item's end": (
        True,
        lambda text: {"type": "response.output_item.done", "output_index": 0, "item": message(text)},
    ),
    "the response's end": (True, lambda text: ended_by_response(message(text))),
    "the arguments' end": (
        False,
        lambda text: {"type": "response.function_call_arguments.done", **ARGUMENTS, "arguments": text},
    ),
    "the call's end": (
        False,
        lambda text: {"type": "response.output_item.done", "output_index": 0, "item": call(text)},
    ),
    "the response's end, with a call": (False, lambda text: ended_by_response(call(text))),
}
CASES = pytest.mark.parametrize(("is_text", "end"), ENDS.values(), ids=ENDS)


def decode(is_text: bool, *ends: Json) -> list[Event]:
    decoder = ResponsesDecoder(counting_ids())
    start, kind = (message(""), "output_text") if is_text else (call(""), "function_call_arguments")
    if is_text:
        start["content"] = []
    place = PLACE if is_text else ARGUMENTS
    chunks: list[Json] = [CREATED, {"type": "response.output_item.added", "output_index": 0, "item": start}]
    chunks += [{"type": f"response.{kind}.delta", **place, "delta": piece} for piece in ('{"a"', ": 1")]
    return [event for chunk in [*chunks, *ends] for event in decoder.feed(chunk)]


def text_of(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Delta))


@CASES
@pytest.mark.parametrize("final", ['{"a": 1', '{"a": 1}', '{"a": 1, "b": 2}'])
def test_the_rest_of_the_final_value_is_sent(is_text: bool, end: Callable[[str], Json], final: str) -> None:
    assert text_of(decode(is_text, end(final))) == final


@CASES
@pytest.mark.parametrize("final", ['{"a": 2}', '{"a"', "no"])
def test_another_final_value_is_a_failure(is_text: bool, end: Callable[[str], Json], final: str) -> None:
    with pytest.raises(ProtocolViolation, match="differs"):
        decode(is_text, end(final))


@CASES
@pytest.mark.parametrize("final", ["", ' {"a": 1\n'])
def test_an_empty_or_trimmed_final_value_says_nothing(is_text: bool, end: Callable[[str], Json], final: str) -> None:
    assert text_of(decode(is_text, end(final))) == '{"a": 1'


@CASES
def test_a_response_that_contradicts_what_has_ended_is_a_failure(is_text: bool, end: Callable[[str], Json]) -> None:
    text, make = ('{"a": 1', message if is_text else call)
    ended = [end(text)] if end(text)["type"] != "response.completed" else []
    for ends in (ended, [*ended, ended_by_item(make(text))]):
        for item in (make("no"), make("no") | {"id": "another"}):
            with pytest.raises(ProtocolViolation, match="differs"):
                decode(is_text, *ends, ended_by_response(item))
    with pytest.raises(ProtocolViolation, match="differs"):
        decode(is_text, *ended, ended_by_item(make(text)), ended_by_response(make(text + "}")))
    for same in (make(text), make(""), make(f" {text}\n"), make(text) | {"id": "another"}):
        assert text_of(decode(is_text, *ended, ended_by_response(same))) == text


def test_a_response_whose_items_have_other_places_is_not_compared() -> None:
    end: Json = {"type": "response.completed", "response": {"output": [message("b") | {"id": "j"}, call("{}")]}}
    assert text_of(decode(True, ended_by_item(message('{"a": 1')), end)).startswith('{"a": 1')


@pytest.mark.parametrize("position", [-1, -(2**63), 7])
def test_a_part_at_a_place_that_the_final_item_does_not_have_fails(position: int) -> None:
    strays = [{"type": "response.output_text.delta", **PLACE, "content_index": position, "delta": "x"}]
    strays += [{"type": "response.output_text.done", **PLACE, "content_index": position, "text": "x"}]
    whole = message('{"a": 1')
    with pytest.raises(ProtocolViolation, match="lacks a part"):
        decode(True, *strays, ended_by_item(whole), ended_by_response(whole))
