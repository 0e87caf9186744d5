"""providers/turn_work.py: work on turns of many items or parts is done in a thread."""

import threading
from typing import Any

import pytest

from providers.turn_work import has_many_parts, run_for_items

MESSAGE = {"type": "message", "role": "user", "content": "x"}
OF_PARTS = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}] * 2000}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "x"}] * 2000}


@pytest.mark.parametrize(
    ("items", "are_many"),
    [([], False), ([MESSAGE] * 1500, False), ([MESSAGE] * 1501, True), ([OF_PARTS], True), ([OUTPUT], True)],
    ids=["none", "few", "many", "one of many parts", "an output of many parts"],
)
async def test_work_on_many_items_or_parts_is_done_in_a_thread(items: list[Any], are_many: bool) -> None:
    assert has_many_parts(items) is are_many
    assert (await run_for_items(items, threading.get_ident) != threading.get_ident()) is are_many
