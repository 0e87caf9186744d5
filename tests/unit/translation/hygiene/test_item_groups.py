from typing import Any

import pytest

from translation.hygiene.item_groups import (
    group_items,
    is_summary_message,
    is_user_message,
    split_for_compaction,
    trim_items,
)
from translation.representation.json_types import Item


def message(role: str, text: str = "a") -> Item:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


def call(call_id: str) -> Item:
    return {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}"}


def output(call_id: str, text: str = "a") -> Item:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


THOUGHT: Item = {"type": "reasoning", "id": "rs_1", "summary": []}
SUMMARY: Item = {**message("user"), "id": "cmp_1"}

ROUNDS: dict[str, tuple[list[Item], list[list[int]]]] = {
    "nothing": ([], []),
    "a question and its answer": ([message("user"), message("assistant")], [[0], [1]]),
    "a thought and what it led to": ([message("user"), THOUGHT, message("assistant")], [[0], [1, 2]]),
    "calls and their outputs": (
        [THOUGHT, call("a"), call("b"), output("b"), output("a"), message("assistant")],
        [[0, 1, 2, 3, 4], [5]],
    ),
    "calls one after the other": ([call("a"), output("a"), call("b"), output("b")], [[0, 1], [2, 3]]),
    "a late output": ([call("a"), message("user"), output("a")], [[0, 2], [1]]),
    "an output of nobody's call": ([output("a"), message("user")], [[0], [1]]),
    "a shell's output that names its call in its id": (
        [{"type": "local_shell_call", "call_id": "a"}, {"type": "local_shell_call_output", "id": "a"}],
        [[0, 1]],
    ),
    "an approval": (
        [{"type": "mcp_approval_request", "id": "a"}, {"type": "mcp_approval_response", "approval_request_id": "a"}],
        [[0, 1]],
    ),
    "a tool the upstream ran": ([{"type": "web_search_call", "id": "ws_1"}, message("assistant")], [[0, 1]]),
    "what is nobody's": ([{"type": "configuration_update"}, message("assistant")], [[0], [1]]),
}


@pytest.mark.parametrize(("items", "expected"), ROUNDS.values(), ids=ROUNDS)
def test_related_items_are_one_round(items: list[Item], expected: list[list[int]]) -> None:
    assert group_items(items) == expected


LONG = "word " * 20

TALK = [
    message("system", "rules"),
    message("user", LONG),
    message("assistant", LONG),
    message("user", "why?"),
    THOUGHT,
    call("a"),
    output("a"),
    message("assistant"),
    message("user", "and now?"),
]


def places_left(items: list[Item], share: float) -> list[int]:
    left = trim_items(items, share)
    return [place for place, item in enumerate(items) if any(item is one for one in left)]


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (1.0, [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        (0.8, [0, 3, 4, 5, 6, 7, 8]),
        (0.5, [0, 3, 4, 5, 6, 7, 8]),
        (0.2, [0, 8]),
        (0.0, [0, 8]),
    ],
)
def test_the_oldest_rounds_are_removed_first_and_the_rest_begins_with_a_user(share: float, expected: list[int]) -> None:
    assert places_left(TALK, share) == expected


STAYING: dict[str, list[Item]] = {
    "what instructs": [message("system"), message("developer"), message("user")],
    "a summary of what came before": [SUMMARY, message("user")],
    "another server's compaction": [{"type": "compaction", "encrypted_content": "a"}, message("user")],
    "the last user message, however far back": [message("user"), output("x")],
    "a call that waits for its output": [call("a"), message("user")],
    "the end of the input": [call("a"), output("a")],
}


@pytest.mark.parametrize("items", STAYING.values(), ids=STAYING)
def test_required_items_are_never_left_out(items: list[Item]) -> None:
    assert trim_items(items, 0.0) == items


def test_a_long_round_loses_its_first_steps() -> None:
    items = [message("user"), call("a"), output("a"), call("b"), output("b"), call("c"), output("c")]
    assert places_left(items, 0.5) == [0, 5, 6]
    assert places_left(items, 0.0) == [0, 5, 6]


def parts(items: list[Item], *, question: bool) -> tuple[Any, ...]:
    found = split_for_compaction(items, awaits_answer=question)
    return tuple([items.index(item) for item in part] for part in found)


def test_a_whole_conversation_is_summarized_except_its_instructions() -> None:
    assert parts(TALK[:4], question=False) == ([0], [1, 2, 3], [])


def test_calls_that_wait_for_their_outputs_stay() -> None:
    items = [message("user"), call("a"), output("a"), message("user", "b"), THOUGHT, call("b")]
    assert parts(items, question=False) == ([], [0, 1, 2, 3], [4, 5])
    approval: Item = {"type": "mcp_approval_request", "id": "x"}
    assert parts([message("user"), approval], question=False) == ([], [0], [1])


def test_a_user_message_stays_with_the_items_after_it() -> None:
    items = [*TALK[:4], call("a"), output("a")]
    assert parts(items, question=True) == ([0], [1, 2], [3, 4, 5])


def test_of_a_long_round_the_end_stays() -> None:
    items = [message("user"), call("a"), output("a", LONG), call("b"), output("b", LONG), call("c"), output("c")]
    assert parts(items, question=True) == ([], [1, 2, 3, 4], [0, 5, 6])


def test_of_an_input_without_a_user_message_the_end_stays() -> None:
    items = [message("assistant", LONG), message("system"), message("assistant", "b")]
    assert parts(items, question=True) == ([], [0], [1, 2])


def test_a_lone_message_has_nothing_to_summarize() -> None:
    for role in ("user", "assistant"):
        assert parts([message(role, LONG)], question=True) == ([], [], [0])


def test_a_summary_is_no_user_message() -> None:
    assert (
        is_user_message(message("user")),
        is_user_message(SUMMARY),
        is_user_message(message("assistant")),
        is_user_message(THOUGHT),
    ) == (
        True,
        False,
        False,
        False,
    )
    assert (is_summary_message(SUMMARY), is_summary_message(message("user"))) == (True, False)
