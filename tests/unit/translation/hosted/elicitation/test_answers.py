"""Answers of users to requests for input, and whether they fit the form."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.translation.hosted.elicitation.requested_inputs import LOGIN, SIZE, asking
from translation.hosted.elicitation.answers import InvalidInputContent, accept_input, decline_input


def test_content_accepts_a_form() -> None:
    given = accept_input(asking(round=3, call_id="mcp_1"), {"people": 2, "tags": ["a"]})
    assert given.responses == {"size": {"action": "accept", "content": {"people": 2, "tags": ["a"]}}}
    assert (given.state, given.round, given.call_id) == ("opaque", 3, "mcp_1")


def test_a_form_without_required_fields_can_be_accepted_as_it_is() -> None:
    confirmation = asking(replace(SIZE, schema={"type": "object", "properties": {}}))
    assert accept_input(confirmation, None).responses == {"size": {"action": "accept", "content": {}}}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, '"people" is a required property'),
        ([1], "the content must be an object"),
        ({}, '"people" is a required property'),
        ({"people": 0}, "content.people: "),
        ({"people": 1, "age": 3}, "the content has the field 'age', which the form does not have"),
        ({"people": {"a": 1}}, "content.people must be a text, a number"),
        ({"people": 1, "tags": [1]}, "content.tags must be a text, a number"),
        ({"people": 2**70}, "the content is not valid JSON"),
        ({"people": "x" * 70_000}, "the content is longer than 65536 bytes"),
    ],
)
def test_content_that_does_not_fit_is_refused(content: Any, reason: str) -> None:
    with pytest.raises(InvalidInputContent) as unfit:
        accept_input(asking(), content)
    assert reason in str(unfit.value)


def test_an_address_takes_no_content() -> None:
    assert accept_input(asking(LOGIN), None).responses == {"login": {"action": "accept"}}
    with pytest.raises(InvalidInputContent, match="takes no content"):
        accept_input(asking(LOGIN), {"done": True})


def test_of_several_forms_those_without_an_answer_are_declined() -> None:
    both = asking(SIZE, LOGIN)
    accepted = {"action": "accept", "content": {"people": 1}}
    declined = {"action": "decline"}
    assert accept_input(both, {"size": {"people": 1}}).responses == {"size": accepted, "login": declined}
    assert accept_input(both, {"login": True}).responses == {"size": declined, "login": {"action": "accept"}}
    assert accept_input(both, {"login": False}).responses == {"size": declined, "login": declined}
    for content in ("yes", {"other": 1}, {"size": {"people": 0}}):
        with pytest.raises(InvalidInputContent):
            accept_input(both, content)


def test_a_user_may_decline_or_cancel_every_form() -> None:
    assert decline_input(asking(SIZE, LOGIN), "decline").responses == {
        "size": {"action": "decline"},
        "login": {"action": "decline"},
    }
    assert decline_input(asking(), "cancel").responses == {"size": {"action": "cancel"}}
