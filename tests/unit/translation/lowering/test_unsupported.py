"""translation/lowering/unsupported.py"""

import pytest

from translation.errors import InvalidRequest, Unrepresentable
from translation.lowering.unsupported import (
    build_unknown_item_error,
    find_history_losses,
    find_output_losses,
    find_parameter_losses,
    find_unknown_key_losses,
)
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss, UnknownKey
from translation.representation.turn import Turn

CALL: Item = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
OUTPUT: Item = {"type": "function_call_output", "call_id": "c", "output": "ok"}
HI: Item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
CITED = {"type": "output_text", "text": "a", "annotations": [{"type": "url_citation"}]}
PLAIN = {"type": "output_text", "text": "a", "annotations": []}


def assistant(*parts: Item, **more: str) -> Item:
    return {"type": "message", "role": "assistant", "content": list(parts), **more}


CASES: dict[str, tuple[list[Item], list[str]]] = {
    "what every API can say": ([HI, CALL, OUTPUT, HI, assistant(PLAIN)], []),
    "a phase": ([assistant(PLAIN, phase="commentary"), HI], ["phase dropped"]),
    "annotations, once for each message": ([assistant(PLAIN, CITED, CITED)], ["annotations dropped"]),
    "a message before the output of a call": ([CALL, HI, OUTPUT], ["message not between call and output"]),
    "words of the model before the output of a call": ([CALL, assistant(PLAIN), OUTPUT], []),
}


@pytest.mark.parametrize(("items", "lost"), CASES.values(), ids=CASES)
def test_history_without_an_equivalent_is_a_loss(items: list[Item], lost: list[str]) -> None:
    assert find_history_losses(items) == [Loss("input", what) for what in lost]


def test_an_incomplete_output_is_a_loss() -> None:
    assert list(find_output_losses({**OUTPUT, "status": "incomplete"}, 0)) == [Loss("input[0].status", "dropped")]
    assert list(find_output_losses({**OUTPUT, "status": "completed"}, 0)) == []


@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        ("computer_call", Unrepresentable, "this model's API has no items of type 'computer_call'"),
        ("item_reference", InvalidRequest, "Items are not stored here: send the item itself, not a reference."),
    ],
)
def test_an_item_that_an_api_does_not_have_is_refused_by_its_place(
    kind: str, error: type[InvalidRequest], message: str
) -> None:
    found = build_unknown_item_error({"type": kind}, 3)
    assert (type(found), found.param, str(found)) == (error, "input[3]", message)


TOOL: Json = {"type": "function", "name": "f", "color": "red"}
UNKNOWN = UnknownKey("tools[0].color", "color", TOOL)

BODIES: dict[str, tuple[Json | None, list[Loss]]] = {
    "without a body": (None, [Loss("tools[0].color", "dropped")]),
    "the object itself": ({"tools": [TOOL]}, []),
    "a copy with a namespace": ({"tools": ({**TOOL, "name": "ns__f"},)}, []),
    "a copy of another name": ({"tools": [{**TOOL, "name": "g"}]}, [Loss("tools[0].color", "dropped")]),
    "a copy with another value": ({"tools": [{**TOOL, "color": "blue"}]}, [Loss("tools[0].color", "dropped")]),
}


@pytest.mark.parametrize(("body", "losses"), BODIES.values(), ids=BODIES)
def test_an_unknown_key_is_lost_unless_the_body_has_it(body: Json | None, losses: list[Loss]) -> None:
    assert find_unknown_key_losses([UNKNOWN, UNKNOWN], body) == losses


def test_an_unknown_key_of_an_object_without_a_type_is_lost_from_its_copy() -> None:
    holder: Json = {"color": "red"}
    assert find_unknown_key_losses([UnknownKey("color", "color", holder)], {**holder}) == [Loss("color", "dropped")]
    assert find_unknown_key_losses([], {}) == []


def test_parameters_of_other_apis_and_unknown_keys_are_lost() -> None:
    turn = Turn(model="m", items=[], extra={"best_of": 2}, unknown_keys=[UNKNOWN])
    assert find_parameter_losses(turn) == [Loss("best_of", "dropped"), Loss("tools[0].color", "dropped")]
