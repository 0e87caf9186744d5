"""Runs without a break, which gpt-oss's encoding takes the square of their length for."""

from time import thread_time
from typing import Final

import pytest

from providers.harmony.prompt import render_conversation
from providers.harmony.text_splitting import split_text
from tests.unit.support.harmony import marked, real
from translation.errors import InvalidRequest
from translation.representation.json_types import Json

RUNS: Final = {
    "letters": "a" * 100_000,
    "marks": "=" * 100_000,
    "blanks": " " * 100_000,
    "line ends": "\n" * 100_000,
    "line ends and slashes": "/\n" * 50_000,
    "letters after slashes": "/\n" * 600 + "/" + "a" * 100_000,
    "blanks after line ends": "/" + "\n" * 600 + " " * 100_000,
    "letters and marks on them": "\u0e01\u0e34" * 50_000,
    "control characters": "\x1c=" * 50_000,
}
BOUND_S: Final = 2.0
"""Ten times what it takes; in one piece it takes four seconds and more."""

TOOL: Final[Json] = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {}}}


@pytest.mark.parametrize("text", RUNS.values(), ids=RUNS)
def test_a_run_is_encoded_in_pieces(text: str) -> None:
    encoding = real()  # loaded once
    started = thread_time()
    tokens = encoding.encode(text)
    assert thread_time() - started < BOUND_S
    assert max(map(len, split_text(text))) < 2_000
    assert real().decode(tokens) == text


@pytest.mark.parametrize("stretch", ["a" * 512 + " ", "/" * 512 + " ", " " * 512 + "a", "/\n" * 256 + "a"])
def test_stretches_that_are_just_not_cut_are_looked_for_in_linear_time(stretch: str) -> None:
    text = stretch * 4_000
    started = thread_time()
    assert list(split_text(text)) == [text]
    assert thread_time() - started < 2.0  # to look for one from each character on would take a quarter of a minute


def test_line_ends_behind_a_long_word_are_cut_too() -> None:
    assert max(map(len, split_text("a" * 600 + "/" + "\n/" * 2_000))) < 2_000


@pytest.mark.parametrize(
    "text", ["", "a few words", "\u5929\u6c14\u5f88\u597d\uff0c" * 300, '{"ab":"cd","ef":[]}' * 90]
)
@pytest.mark.parametrize("end", ["", "\n\n", " and on"])
def test_ordinary_texts_have_the_same_tokens_as_without_splitting(text: str, end: str) -> None:
    assert real().encode(text + end) == marked(text + end)


def messages_of(role: str, text: str) -> list[Json]:
    match role:
        case "tool" | "call":
            call = {"id": "c", "function": {"name": "f", "arguments": text if role == "call" else "{}"}}
            said = {"role": "tool", "tool_call_id": "c", "content": "ok" if role == "call" else text}
            return [{"role": "assistant", "tool_calls": [call]}, said]
        case "thought":
            return [{"role": "assistant", "reasoning_content": text}]
        case "later":
            return [{"role": "user", "content": "Hi"}, {"role": "system", "content": text}]
        case _:
            return [{"role": role, "content": text}]


@pytest.mark.parametrize("tools", [[], [TOOL]], ids=["without tools", "with tools"])
@pytest.mark.parametrize("role", ["system", "later", "user", "assistant", "thought", "tool", "call"])
def test_long_runs_of_any_role_are_rendered_in_pieces(role: str, tools: list[Json]) -> None:
    text = RUNS["letters"]
    started = thread_time()
    tokens = render_conversation(real(), messages_of(role, text), tools, "low", None)
    assert thread_time() - started < BOUND_S
    assert text in real().decode(tokens)


@pytest.mark.parametrize("tools", [[], [TOOL]], ids=["without tools", "with tools"])
@pytest.mark.parametrize("role", ["system", "later", "user", "tool"])
def test_rendering_in_pieces_gives_the_tokens_of_rendering_whole(
    role: str, tools: list[Json], monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = messages_of(role, "\u5929\u6c14\u5f88\u597d\uff0c" * 300)
    cut = render_conversation(real(), messages, tools, "low", {"enum": ["ab"] * 200})
    monkeypatch.setattr("providers.harmony.prompt.split_text", lambda text: [text])
    assert cut == render_conversation(real(), messages, tools, "low", {"enum": ["ab"] * 200})


def test_a_run_in_a_tool_is_refused_by_name() -> None:
    parameters = {"type": "object", "properties": {"a": {"type": "string", "enum": ["a" * 5_000]}}}
    tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
    with pytest.raises(InvalidRequest, match="without a blank") as refused:
        render_conversation(real(), messages_of("user", "Hi"), [tool], "low", None)
    assert refused.value.param == "tools"


def test_a_run_in_the_name_of_a_call_is_refused_by_name() -> None:
    call = {"id": "c", "function": {"name": "f" * 5_000, "arguments": "{}"}}
    with pytest.raises(InvalidRequest, match="without a blank") as refused:
        render_conversation(real(), [{"role": "assistant", "tool_calls": [call]}], [], "low", None)
    assert refused.value.param == "tools"
