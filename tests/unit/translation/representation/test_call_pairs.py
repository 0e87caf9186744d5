"""Joining thousands of items to one message takes linear time."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from time import thread_time
from typing import Final

import pytest

from translation.chat.upstream import lower_items as chat
from translation.ollama.upstream import lower_items as ollama
from translation.representation.call_pairs import CallOutputPairs
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.profile import DEFAULT_PROFILE, Profile
from translation.representation.turn import Turn

Lower = Callable[[Turn, Profile, list[Loss]], list[Json]]

WAYS: Final[dict[str, Lower]] = {"chat": chat.lower_items, "ollama": ollama.lower_items}
MANY: Final = 8_000
CALLS: Final = 20_000
BOUND_S: Final = 2.0
"""Many times what it takes; a part of what it takes where each text is copied for the next."""

CALL: Item = {"type": "function_call", "call_id": "x", "name": "f", "arguments": "{}"}
OUTPUT: Item = {"type": "function_call_output", "call_id": "x", "output": "ok"}


def message_item(role: str, text: str) -> Item:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def thought(text: str) -> Item:
    return {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": text}]}


def quickly(lower: Lower, items: Sequence[Item], profile: Profile = DEFAULT_PROFILE) -> list[Json]:
    started = thread_time()
    messages = lower(Turn("m", items), profile, [])
    assert thread_time() - started < BOUND_S
    return messages


@pytest.mark.parametrize("lower", WAYS.values(), ids=WAYS)
def test_system_messages(lower: Lower) -> None:
    [message] = quickly(lower, [message_item("system", "s" * 500)] * MANY)
    assert message["content"] == "\n\n".join(["s" * 500] * MANY)


@pytest.mark.parametrize("lower", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("replay", ["reasoning_content", "think_tags"])
def test_thoughts_and_texts_between_a_call_and_its_output(lower: Lower, replay: str) -> None:
    between = [thought("t" * 500), message_item("assistant", "a" * 500)] * MANY
    message, _ = quickly(lower, [CALL, *between, OUTPUT], Profile(replay_reasoning=replay))  # type: ignore[arg-type]
    assert sum(text.count("a" * 500) for text in message.values() if isinstance(text, str)) == MANY
    assert sum(text.count("t" * 500) for text in message.values() if isinstance(text, str)) == MANY


@pytest.mark.parametrize("lower", WAYS.values(), ids=WAYS)
def test_texts_around_thoughts_between_a_call_and_its_output_keep_their_order(lower: Lower) -> None:
    items = [
        CALL,
        thought("1"),
        message_item("assistant", ""),
        message_item("assistant", "a"),
        thought("2"),
        message_item("assistant", ""),
    ]
    message, _ = lower(Turn("m", [*items, OUTPUT]), Profile(replay_reasoning="think_tags"), [])
    assert message["content"] == "<think>\n2\n</think>\n\n<think>\n1\n</think>\n\n\n\na\n\n"


@pytest.mark.parametrize("lower", WAYS.values(), ids=WAYS)
def test_empty_texts_before_a_text_leave_no_gap_between_a_call_and_its_output(lower: Lower) -> None:
    items = [CALL, message_item("assistant", ""), message_item("assistant", "a"), OUTPUT]
    message, _ = lower(Turn("m", items), DEFAULT_PROFILE, [])
    assert message["content"] == "a"


@pytest.mark.parametrize("lower", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("merging", ["merge_leading", "merge_all"])
def test_system_messages_after_the_first_that_is_empty(lower: Lower, merging: str) -> None:
    items = [message_item("system", ""), message_item("system", "a"), message_item("user", "b")]
    system, _ = lower(Turn("m", items), Profile(system_messages=merging), [])  # type: ignore[arg-type]
    assert system["content"] == "\n\na"


@pytest.mark.parametrize("lower", WAYS.values(), ids=WAYS)
def test_calls_of_one_id_each_with_its_output(lower: Lower) -> None:
    messages = quickly(lower, [CALL, OUTPUT] * CALLS)
    assert len(messages) == 2 * CALLS


@pytest.mark.parametrize("lower", WAYS.values(), ids=WAYS)
def test_calls_of_one_id_all_before_their_outputs(lower: Lower) -> None:
    messages = quickly(lower, [*[CALL] * CALLS, *[OUTPUT] * CALLS])
    assert len(messages) == 1 + CALLS


def test_an_output_before_its_call_has_no_call() -> None:
    pairs = CallOutputPairs([OUTPUT, CALL, OUTPUT])
    assert pairs.output_of(1) == 2


def test_a_turn_is_searched_for_its_calls_and_types_once() -> None:
    turn = Turn("m", [CALL, OUTPUT])
    assert turn.call_pairs is turn.call_pairs
    assert turn.item_types is turn.item_types
    shorter = replace(turn, items=[CALL])
    assert shorter.call_pairs.outputs == {}
    assert shorter.item_types == {"function_call"}
    assert turn == Turn("m", [CALL, OUTPUT])
