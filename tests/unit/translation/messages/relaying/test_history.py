"""The history of a relayed request, which other models may have written."""

from typing import Any

import pytest

from providers.profiles import PROFILES
from translation.messages.relaying.history import repair_history
from translation.messages.relaying.request import relay_body
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import DEFAULT_PROFILE

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


def test_only_anthropic_gets_a_mended_history() -> None:
    messages = [QUESTION, answer(UNSIGNED, BLANK, use("a:0")), results("a:0")]
    body: Json = {"model": "m", "messages": messages}
    assert relay_body(body, DEFAULT_PROFILE, model="m") == (body, [])
    sent, losses = relay_body(body, PROFILES["anthropic"], model="m")
    assert (sent["messages"], losses) == ([QUESTION, answer(use("a_0")), results("a_0")], DROPPED)
    assert body["messages"] is messages
