"""Calls that wait for their output are found by id, by name or by order, among however many."""

from translation.representation.json_types import Item
from translation.tools.unanswered_calls import UnansweredCalls

MANY = 20_000


def call(call_id: str, name: str = "f") -> Item:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": "{}"}


def test_calls_are_found_by_id_by_name_and_in_order() -> None:
    calls = UnansweredCalls()
    assert calls.first() is None
    assert [calls.pop_first(), calls.pop_id("a"), calls.pop_name("f")] == [None] * 3
    for number, (call_id, name) in enumerate([("a", "f"), ("b", "g"), ("c", "f"), ("a", "h")]):
        calls.add(call(call_id, name), f"calls[{number}]")
    assert calls.first() == (call("a"), "calls[0]")
    assert calls.pop_id("a") == call("a")
    assert calls.has("a")
    assert calls.pop_name("f") == call("c")
    assert calls.pop_name("f") is None
    assert not calls.has("c")
    assert calls.pop_first() == call("b", "g")
    assert calls.pop_id("a") == call("a", "h")
    assert calls.first() is None


def test_thousands_of_calls_are_closed_in_any_order() -> None:
    """This takes minutes if each call is searched for, and a twentieth of a second if not."""
    for pop in (
        lambda calls, number: calls.pop_id(f"c{number}"),
        lambda calls, number: calls.pop_name(f"f{number}"),
        lambda calls, number: calls.pop_first(),
    ):
        calls = UnansweredCalls()
        for number in range(MANY):
            calls.add(call(f"c{number}", f"f{number}"))
        for number in reversed(range(MANY)):
            assert pop(calls, number) is not None
        assert calls.first() is None
