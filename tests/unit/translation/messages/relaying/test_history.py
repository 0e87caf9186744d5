"""The history of a relayed request, which other models may have written."""

from dataclasses import replace
from typing import Any, get_args

import pytest

from providers.profiles import PROFILES
from translation.messages.relaying.history import repair_history
from translation.messages.relaying.request import relay_body
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import DEFAULT_PROFILE, RelayedHistory

QUESTION: Json = {"role": "user", "content": "Hi"}
TEXT: Json = {"type": "text", "text": "a"}
BLANK: Json = {"type": "text", "text": "\n\n"}
SIGNED: Json = {"type": "thinking", "thinking": "", "signature": "EqQB"}
UNSIGNED: Json = {"type": "thinking", "thinking": "Hm.", "signature": ""}
SEALED: Json = {"type": "redacted_thinking", "data": "EqQB"}


def use(call_id: Any) -> Json:
    return {"type": "tool_use", "id": call_id, "name": "f", "input": {}}


def result(call_id: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "ok"}


def answer(*blocks: Any) -> Json:
    return {"role": "assistant", "content": list(blocks)}


def results(*ids: Any) -> Json:
    return {"role": "user", "content": [*map(result, ids)]}


VALID: dict[str, list[Json]] = {
    "texts": [QUESTION, answer(TEXT), {"role": "user", "content": [TEXT, BLANK]}, {"role": "system", "content": " "}],
    "a text alone": [QUESTION, {"role": "assistant", "content": "a"}, QUESTION],
    "calls": [answer(TEXT, use("toolu_1"), use("call-2")), results("call-2", "toolu_1")],
    "signed thinking": [answer(SIGNED, SEALED, TEXT)],
    "what only the upstream can judge": [
        answer(None, {"type": "new"}, {"type": "text"}, use(None)),
        {"role": "user", "content": [None, result(1), result("unknown")]},
        {"role": "assistant"},
        {"role": "new", "content": [BLANK]},
    ],
}


@pytest.mark.parametrize("messages", VALID.values(), ids=VALID)
def test_a_valid_history_is_relayed_unchanged(messages: list[Json]) -> None:
    losses: list[Loss] = []
    assert repair_history(messages, losses) is messages
    assert losses == []


DROPPED = [Loss("messages", "reasoning dropped")]

REPAIRED: dict[str, tuple[list[Json], list[Json], list[Loss]]] = {
    "an id of other characters": (
        [answer(use("functions.Bash:0")), results("functions.Bash:0")],
        [answer(use("functions_Bash_0")), results("functions_Bash_0")],
        [],
    ),
    "an id in two turns": (
        [answer(use("a")), results("a"), answer(use("a")), results("a"), answer(use("a")), results("a", "a")],
        [
            *(answer(use("a")), results("a"), answer(use("a__2")), results("a__2")),
            *(answer(use("a__3")), results("a__3", "a__3")),
        ],
        [],
    ),
    "an id twice in a turn": ([answer(use("a"), use("a")), results("a", "a")],
                              [answer(use("a"), use("a__2")), results("a", "a__2")], []),
    "two ids that become one": (
        [answer(use("a:1"), use("a.1")), results("a.1", "a:1")],
        [answer(use("a_1"), use("a_1__2")), results("a_1__2", "a_1")],
        [],
    ),
    "no id": ([answer(use("")), results("")], [answer(use("tc_1")), results("tc_1")], []),
    "a blank text": ([answer(BLANK, use("a")), results("a")], [answer(use("a")), results("a")], []),
    "nothing but blank text": ([QUESTION, answer(BLANK), QUESTION], [QUESTION, QUESTION], []),
    "a blank answer": ([QUESTION, {"role": "assistant", "content": "\n"}, QUESTION], [QUESTION, QUESTION], []),
    "thinking without a signature": (
        [answer(UNSIGNED, TEXT), answer({"type": "thinking", "thinking": "Hm."}, SIGNED, TEXT)],
        [answer(TEXT), answer(SIGNED, TEXT)],
        DROPPED,
    ),
    "redacted thinking without data": ([answer({"type": "redacted_thinking", "data": ""}, TEXT)],
                                       [answer(TEXT)], DROPPED),
    "nothing but thinking": ([QUESTION, answer(UNSIGNED), QUESTION], [QUESTION, QUESTION], DROPPED),
}  # fmt: skip


@pytest.mark.parametrize(("messages", "sent", "losses"), REPAIRED.values(), ids=REPAIRED)
def test_what_other_models_wrote_is_mended(messages: list[Json], sent: list[Json], losses: list[Loss]) -> None:
    found: list[Loss] = []
    assert (list(repair_history(messages, found)), found) == (sent, losses)
    assert list(repair_history(sent, [])) == sent


OTHERS = [
    *("mimo-v2-flash", "kimi-k2-thinking", "accounts/fireworks/models/kimi-k2-instruct", "deepseek-reasoner"),
    *("MiniMax-M2", "glm-4.6", "qwen3-coder-plus", "m"),
]
CLAUDES = [
    *("claude-opus-5-5", "claude-sonnet-4-5@20250929", "Claude-Haiku-4-5", "claude-instant", "claude-latest"),
    *("anthropic/claude-opus-4.6", "us.anthropic.claude-opus-5-5-v1:0", "databricks-claude-opus-4-5"),
    "anthropic.claude-mythos-preview",
]
WAYS: dict[RelayedHistory, tuple[list[str], list[str]]] = {
    # Names whose histories are mended, and names whose histories are sent as they are.
    "by_model": (CLAUDES, OTHERS),
    "keep": ([], CLAUDES + OTHERS),
    "repair": (CLAUDES + OTHERS, []),
}


@pytest.mark.parametrize("way", get_args(RelayedHistory))
def test_the_profile_and_the_model_decide_whose_history_is_mended(way: RelayedHistory) -> None:
    messages = [QUESTION, answer(UNSIGNED, BLANK, use("functions.f:0")), results("functions.f:0")]
    body: Json = {"model": "mine", "messages": messages}
    profile = replace(DEFAULT_PROFILE, relayed_history=way)
    mended, kept = WAYS[way]
    for model in mended:
        sent, losses = relay_body(body, profile, model=model)
        ids = [QUESTION, answer(use("functions_f_0")), results("functions_f_0")]
        assert (sent["messages"], losses) == (ids, DROPPED), model
        assert body["messages"] is messages
    for model in kept:
        assert relay_body(body, profile, model=model) == ({**body, "model": model}, []), model


def test_only_servers_with_anthropics_api_are_asked_for_the_model() -> None:
    ways = {kind: profile.relayed_history for kind, profile in PROFILES.items()}
    assert ways == {kind: "by_model" if kind == "anthropic" else "keep" for kind in PROFILES}
