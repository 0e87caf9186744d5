"""Marks for the caches of models behind chat upstreams: who gets them, and where they stand."""

from dataclasses import replace
from typing import Any

import pytest

from providers.profiles import PROFILES
from translation.chat.upstream.lower import lower
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import DEFAULT_PROFILE, Profile
from translation.representation.turn import Turn

CLAUDE = "anthropic/claude-opus-5"
OPENROUTER = PROFILES["openrouter"]
MARK: Json = {"type": "ephemeral"}
HOUR: Json = {"type": "ephemeral", "ttl": "1h"}
URL = "data:image/png;base64,AA=="


def user(*texts: str) -> Json:
    parts = [{"type": "input_text", "text": text} for text in texts]
    return {"type": "message", "role": "user", "content": parts}


def picture(*texts: str) -> Json:
    return user(*texts) | {"content": [*user(*texts)["content"], {"type": "input_image", "image_url": URL}]}


def call(number: int) -> Json:
    return {"type": "function_call", "call_id": f"c{number}", "name": "f", "arguments": "{}"}


def output(number: int, text: str = "done") -> Json:
    return {"type": "function_call_output", "call_id": f"c{number}", "output": text}


def answer(text: str) -> Json:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def system(text: str) -> Json:
    return {"type": "message", "role": "system", "content": [{"type": "input_text", "text": text}]}


def lower_turn(
    items: list[Json], *, model: str = CLAUDE, profile: Profile = OPENROUTER, mark: Json | None = MARK, **more: Any
) -> tuple[list[Json], list[str]]:
    turn = Turn(model=model, items=items, cache_control=mark, stream=False, **more)
    body, losses = lower(turn, profile)
    assert "cache_control" not in body
    return body["messages"], [str(loss) for loss in losses]


def list_marks(messages: list[Json]) -> list[tuple[int, int, Json]]:
    """The marks: the index of the message, that of the part, and the mark."""
    return [
        (index, place, part["cache_control"])
        for index, message in enumerate(messages)
        if isinstance(message.get("content"), list)
        for place, part in enumerate(message["content"])
        if "cache_control" in part
    ]


MARKED: dict[str, tuple[list[Json], str | None, list[tuple[int, int]]]] = {
    "a text": ([user("a")], None, [(0, 0)]),
    "instructions and a text": ([user("a")], "be brief", [(0, 0), (1, 0)]),
    "parts": ([user("a", "b")], None, [(0, 1)]),
    "a text before a picture": ([picture("a")], None, [(0, 0)]),
    "a conversation": ([user("a"), answer("b"), user("c")], "be brief", [(0, 0), (3, 0)]),
    "the output of a tool": ([user("a"), call(1), output(1)], "be brief", [(0, 0), (3, 0)]),
    "the outputs of two tools": ([user("a"), call(1), call(2), output(1), output(2)], None, [(3, 0)]),
    "an empty output": ([user("a"), call(1), output(1, "")], None, [(0, 0)]),
    "a blank output after another": ([user("a"), call(1), call(2), output(1), output(2, " \n")], None, [(2, 0)]),
    "a beginning of the answer": ([user("a"), answer("b")], None, [(0, 0)]),
    "a picture alone": ([user("a"), answer("b"), picture()], None, [(0, 0)]),
    "a picture alone, after instructions": ([picture()], "be brief", [(0, 0)]),
    "a late system message": ([user("a"), system("s")], None, [(1, 0)]),
}


@pytest.mark.parametrize(("items", "instructions", "places"), MARKED.values(), ids=MARKED)
def test_marks_stand_at_the_last_texts(items: list[Json], instructions: str | None, places: list[Any]) -> None:
    messages, losses = lower_turn(items, instructions=instructions)
    assert list_marks(messages) == [(*place, MARK) for place in places]
    plain, _ = lower_turn(items, instructions=instructions, mark=None)
    assert [message["role"] for message in messages] == [message["role"] for message in plain]
    assert losses == []


def test_a_marked_text_is_otherwise_what_it_would_be() -> None:
    messages, _ = lower_turn([user("a"), call(1), output(1)], instructions="be brief")
    assert messages[0] == {"role": "system", "content": [{"type": "text", "text": "be brief", "cache_control": MARK}]}
    assert messages[1] == {"role": "user", "content": "a"}
    assert messages[3] == {
        "role": "tool",
        "tool_call_id": "c1",
        "content": [{"type": "text", "text": "done", "cache_control": MARK}],
    }


def test_each_system_message_before_the_others_counts() -> None:
    profile = Profile(cache_marks={"*": "1h"}, system_messages="keep")
    messages, _ = lower_turn([system("s"), user("a")], profile=profile, instructions="be brief")
    assert list_marks(messages) == [(1, 0, MARK), (2, 0, MARK)]


WITHOUT_TEXT: dict[str, tuple[str, Json | None, Json, list[str]]] = {
    # the model, the client's mark, its parameters, the losses
    "a mark": (CLAUDE, MARK, {}, ["cache_control=dropped"]),
    "a mark for an hour": ("qwen/qwen3-max", HOUR, {}, ["cache_control=dropped"]),
    "a mark and a key": (CLAUDE, MARK, {"prompt_cache_key": "k"}, ["cache_control=dropped"]),
    "a key": (CLAUDE, None, {"prompt_cache_key": "k"}, []),
    "a day": (CLAUDE, None, {"prompt_cache_retention": "24h"}, []),
}


@pytest.mark.parametrize(("model", "mark", "sampling", "expected"), WITHOUT_TEXT.values(), ids=WITHOUT_TEXT)
def test_only_marks_of_the_client_that_no_text_can_have_are_a_loss(
    model: str, mark: Json | None, sampling: Json, expected: list[str]
) -> None:
    messages, losses = lower_turn([picture()], model=model, mark=mark, sampling=sampling)
    assert list_marks(messages) == []
    assert losses == expected


TOP_MARKS: dict[str, tuple[Json, bool]] = {
    # the `cache_control` of the client's request, whether the messages get marks beside it
    "five minutes": ({"cache_control": MARK}, False),
    "an hour": ({"cache_control": HOUR}, False),
    "null": ({"cache_control": None}, True),
    "none": ({}, True),
}


@pytest.mark.parametrize(
    "sampling", [{"prompt_cache_key": "k"}, {"prompt_cache_retention": "24h"}], ids=["a key", "a day"]
)
@pytest.mark.parametrize(("extra", "is_marked"), TOP_MARKS.values(), ids=TOP_MARKS)
def test_a_request_with_a_mark_of_its_own_gets_no_others(extra: Json, is_marked: bool, sampling: Json) -> None:
    turn = Turn(model=CLAUDE, items=[user("a")], instructions="be brief", extra=extra, sampling=sampling)
    body, losses = lower(turn, OPENROUTER)
    assert bool(list_marks(body["messages"])) is is_marked
    assert body.get("cache_control") == extra.get("cache_control")
    assert losses == ()


RETENTIONS: dict[str, tuple[frozenset[str], str, list[str]]] = {
    # the parameters that the server refuses, the model, the losses
    "forwarded": (frozenset(), CLAUDE, []),
    "refused": (frozenset({"prompt_cache_retention"}), CLAUDE, ["prompt_cache_retention=24h as 1h"]),
    "refused, for five minutes": (
        frozenset({"prompt_cache_retention"}),
        "qwen/qwen3-max",
        ["prompt_cache_retention=24h as 5m"],
    ),
    "refused, without a mark": (
        frozenset({"prompt_cache_retention"}),
        "openai/gpt-5.5",
        ["prompt_cache_retention=dropped"],
    ),
}


@pytest.mark.parametrize(("refused", "model", "expected"), RETENTIONS.values(), ids=RETENTIONS)
def test_a_retention_is_a_loss_only_if_the_parameter_is_not_sent(
    refused: frozenset[str], model: str, expected: list[str]
) -> None:
    turn = Turn(model=model, items=[user("a")], sampling={"prompt_cache_retention": "24h"})
    body, losses = lower(turn, replace(OPENROUTER, refused_params=refused))
    assert body.get("prompt_cache_retention") == (None if refused else "24h")
    assert [str(loss) for loss in losses] == expected


ASKED: dict[str, tuple[Json | None, Json, Json | None, list[str]]] = {
    # the client's mark, its parameters, the mark that is sent, the losses
    "nothing": (None, {}, None, []),
    "a mark": (MARK, {}, MARK, []),
    "a mark for an hour": (HOUR, {}, HOUR, []),
    "a key": (None, {"prompt_cache_key": "k"}, MARK, []),
    "an empty key": (None, {"prompt_cache_key": ""}, None, []),
    "in memory": (None, {"prompt_cache_retention": "in_memory"}, MARK, []),
    "a day": (None, {"prompt_cache_retention": "24h"}, HOUR, []),
    "a mark and a day": (MARK, {"prompt_cache_retention": "24h"}, HOUR, []),
}

SHORT: dict[str, tuple[Json | None, Json, Json | None, list[str]]] = {
    **{name: ASKED[name] for name in ("nothing", "a mark", "a key", "in memory")},
    "five minutes": ({"type": "ephemeral", "ttl": "5m"}, {}, MARK, []),
    "a mark for an hour": (HOUR, {}, MARK, ["cache_control=1h as 5m"]),
    "a day": (None, {"prompt_cache_retention": "24h"}, MARK, []),
}


@pytest.mark.parametrize(
    ("model", "mark", "sampling", "sent", "expected"),
    [
        *((CLAUDE, *case) for case in ASKED.values()),
        *(("qwen/qwen3-coder-plus", *case) for case in SHORT.values()),
    ],
    ids=[*(f"Claude: {name}" for name in ASKED), *(f"Qwen: {name}" for name in SHORT)],
)
def test_a_turn_that_asks_for_a_cache_has_marks(
    model: str, mark: Json | None, sampling: Json, sent: Json | None, expected: list[str]
) -> None:
    messages, losses = lower_turn([user("a")], model=model, mark=mark, sampling=sampling)
    assert list_marks(messages) == ([] if sent is None else [(0, 0, sent)])
    assert losses == expected


MODELS: dict[str, bool] = {
    **dict.fromkeys(
        (
            *(CLAUDE, "anthropic/claude-haiku-4.5:beta", "~anthropic/Claude-sonnet-latest"),
            *("qwen/qwen3-max", "qwen/qwen-plus", "qwen/qwen3.6-plus", "qwen/qwen3-coder-plus"),
            "qwen/qwen3-coder-flash",
        ),
        True,
    ),
    **dict.fromkeys(
        (
            *("openai/gpt-5.5", "google/gemini-2.5-pro", "google/gemini-2.5-flash", "deepseek/deepseek-v3.2"),
            *("qwen/qwen3-235b-a22b", "qwen/qwen3.5-plus-02-15", "qwen/qwen3.5-flash-02-23", "openrouter/auto"),
        ),
        False,
    ),
}


@pytest.mark.parametrize(("model", "is_marked"), MODELS.items())
def test_only_models_that_cache_nothing_without_marks_get_them(model: str, is_marked: bool) -> None:
    messages, losses = lower_turn([user("a")], model=model, instructions="be brief")
    assert bool(list_marks(messages)) is is_marked
    assert losses == [], "other caches need no marks"


@pytest.mark.parametrize("profile", [DEFAULT_PROFILE, PROFILES["openai"], PROFILES["vllm"]])
def test_other_upstreams_get_no_marks(profile: Profile) -> None:
    messages, losses = lower_turn([user("a")], profile=profile)
    assert messages == [{"role": "user", "content": "a"}]
    assert losses == []


def test_the_first_pattern_that_fits_decides() -> None:
    profile = Profile(cache_marks={"*sonnet*": "5m", "*claude*": "1h"})
    messages, losses = lower_turn([user("a")], model="claude-sonnet-5", profile=profile, mark=HOUR)
    assert list_marks(messages) == [(0, 0, MARK)]
    assert losses == [str(Loss("cache_control", "1h as 5m"))]


def test_the_items_of_the_turn_are_not_changed() -> None:
    items = [user("a", "b")]
    lower_turn(items)
    assert items == [user("a", "b")]
