"""providers/demo/prompts.py: recognizes the prompts that the demo model was trained for."""

import random
from typing import Any

import pytest

from providers.demo import prompts
from providers.demo.prompts import is_held_to_form, join_item_text, select_trained_turn
from scripts.tiny_model import words
from scripts.tiny_model.conversations import TASKS, Conversations
from translation.representation.turn import Turn

Json = dict[str, Any]


def message(role: str, text: str) -> Json:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


def turn(prompt: str, *before: Json, **fields: Any) -> Turn:
    return Turn(model="demo", items=[*before, message("user", prompt)], **fields)


def trained_turn(task: str, seed: int) -> Turn:
    """Returns a conversation of the training as a turn."""
    _, conversation = Conversations(random.Random(seed)).draw(task)
    items: list[Json] = []
    for entry in conversation.messages:
        if entry["role"] == "tool":
            items.append({"type": "function_call_output", "call_id": "c", "output": entry["content"]})
        elif "tool_calls" not in entry:
            items.append(message(entry["role"], entry["content"]))
    return Turn(model="demo", items=items, tools=[tool["function"] for tool in conversation.tools])


@pytest.mark.parametrize("task", TASKS)
def test_trained_prompts_reach_the_model(task: str) -> None:
    turns = [select_trained_turn(trained_turn(task, seed)) for seed in range(60)]
    assert sum(turn is not None for turn in turns) > 57, "only long tools may be left out"


def test_words_of_the_training_are_recognized() -> None:
    assert set(prompts.COUNTRIES) == set(words.CAPITALS)
    for name in ("CITIES", "NAMES", "WORDS", "TOOL_NAMES"):
        assert set(getattr(prompts, name)) == set(getattr(words, name))


@pytest.mark.parametrize(
    "prompt",
    [
        "", "What is 13 times 4?", "Why?", "good morning", "What is the capital of Narnia?", "Count to 31.",
        "Repeat: foo bar", "My name is Max.", "What is my name?", "What is 3 + 4? Explain.", "Write me a poem.",
    ],
)  # fmt: skip
def test_other_prompts_are_beyond_the_training(prompt: str) -> None:
    assert select_trained_turn(turn(prompt)) is None


@pytest.mark.parametrize(
    "beyond",
    [
        turn("Hello", instructions="You are a coding agent. " * 20),
        turn("Hello", message("developer", "word " * 100)),
        turn("Hello", tools=[{"type": "function", "name": "shell", "description": "x" * 2000}]),
        Turn(model="demo", items=[]),
        Turn(
            model="demo",
            items=[{"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": "data:"}]}],
        ),
        Turn(
            model="demo",
            items=[message("user", "Call search with apple"), {"type": "function_call_output", "output": "y" * 300}],
        ),
    ],
    ids=["instructions", "a developer message", "tools", "nothing", "an image", "an output"],
)
def test_a_long_or_foreign_context_is_beyond_the_training(beyond: Turn) -> None:
    assert select_trained_turn(beyond) is None


def test_only_a_name_is_taken_from_earlier_turns() -> None:
    named = [message("user", "My name is Ada."), message("assistant", "Nice to meet you, Ada.")]
    other = [message("user", "word " * 900), message("assistant", "word " * 900)]
    system = message("developer", "Be brief.")
    asks_name = select_trained_turn(turn("What is my name?", system, *named, *other))
    assert asks_name is not None
    assert list(map(join_item_text, asks_name.items)) == [
        "Be brief.", "My name is Ada.", "Nice to meet you, Ada.", "What is my name?"
    ]  # fmt: skip
    asks_sum = select_trained_turn(turn("3 + 4", system, *named, *other))
    assert asks_sum is not None
    assert asks_sum.items == [system, message("user", "3 + 4")]


@pytest.mark.parametrize(
    ("fields", "held"),
    [
        ({}, False),
        ({"tool_choice": "auto"}, False),
        ({"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": []}}, False),
        ({"text_format": {"type": "text"}}, False),
        ({"tool_choice": "required"}, True),
        ({"tool_choice": {"type": "function", "name": "f"}}, True),
        ({"text_format": {"type": "json_object"}}, True),
        ({"extra": {"grammar": "root ::= [0-9]"}}, True),
    ],
)
def test_an_answer_that_must_have_a_form_is_the_models(fields: Json, held: bool) -> None:
    assert is_held_to_form(turn("Why?", **fields)) is held
