"""Parameters that a relay drops are reported."""

import pytest

from translation.chat.relaying.request import relay_body
from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile

OURS: Json = {"type": "reasoning.text", "text": "hm"}
SYSTEMS: list[Json] = [{"role": "system", "content": "a", "name": "ann"}, {"role": "system", "content": "b"}]


def answered(*parts: Json, **more: object) -> list[Json]:
    return [{"role": "assistant", "content": [{"type": "text", "text": "4", **part} for part in parts], **more}]


CALL: Json = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CITED: Json = {"type": "url_citation", "url_citation": {"url": "https://example.com"}}

LOST: dict[str, tuple[list[Json], Profile, list[Loss]]] = {
    "citations on a part": (
        answered({"annotations": [CITED]}),
        Profile(),
        [Loss("messages.content.annotations", "dropped")],
    ),
    "a part's copy of its message is no loss": (
        answered({"annotations": [], "role": "assistant", "tool_calls": [CALL]}, tool_calls=[CALL]),
        Profile(),
        [],
    ),
    "names of systems that become one": (
        SYSTEMS,
        Profile(system_messages="merge_leading"),
        [Loss("messages.name", "dropped")],
    ),
    "names of systems that stay": (SYSTEMS, Profile(system_messages="keep"), []),
    "systems without names": ([SYSTEMS[1]] * 2, Profile(system_messages="merge_leading"), []),
}


@pytest.mark.parametrize(("messages", "profile", "lost"), LOST.values(), ids=LOST)
def test_a_relay_reports_what_it_leaves_out(messages: list[Json], profile: Profile, lost: list[Loss]) -> None:
    assert relay_body({"model": "m", "messages": messages}, profile, model="m").losses == lost


@pytest.mark.parametrize(("listed", "is_lost"), [([OURS], False), ([OURS, {"type": "odd", "api": "another"}], True)])
def test_foreign_details_are_a_loss_beside_own_ones(listed: list[Json], is_lost: bool) -> None:
    message = {"role": "assistant", "content": "4", "reasoning_details": listed}
    lowered = relay_body(
        {"model": "m", "messages": [message]}, Profile(replay_reasoning="reasoning_details"), model="m"
    )
    assert lowered.body["messages"][0]["reasoning_details"] == [OURS]
    assert lowered.losses == ([Loss("messages.reasoning_details", "dropped")] if is_lost else [])


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "f"}}])
def test_invalid_tools_are_refused(choice: object) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "a"}], "tools": [], "tool_choice": choice}
    with pytest.raises(InvalidRequest) as refused:
        relay_body(body, Profile(), model="m")
    assert refused.value.param == "tool_choice"
