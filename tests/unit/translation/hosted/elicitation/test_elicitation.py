"""What a tool asks the user for, and what an answer is worth."""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from translation.hosted.bounds import DEFAULT_SCHEMA_LIMITS
from translation.hosted.elicitation.answers import GivenInput, UnfitContent, give_content, refuse_input
from translation.hosted.elicitation.forms import InputForm, RequestedInput, find_form_fault
from translation.representation.json_types import Json

SCHEMA: Json = {
    "type": "object",
    "properties": {"people": {"type": "integer", "minimum": 1}, "tags": {"type": "array"}},
    "required": ["people"],
}
SIZE = InputForm(key="size", message="For how many?", schema=SCHEMA)
LOGIN = InputForm(key="login", message="Log in, please.", url="https://login.example.com/start?x=1")


def asking(*forms: InputForm, **more: Any) -> RequestedInput:
    return RequestedInput(forms=forms or (SIZE,), state="opaque", **more)


def fault_of(requested: RequestedInput, max_bytes: int = 1000) -> str | None:
    return find_form_fault(requested, max_bytes=max_bytes, schema_limits=DEFAULT_SCHEMA_LIMITS)


def test_one_form_is_as_the_server_has_it() -> None:
    assert asking().describe() == {"mode": "form", "message": "For how many?", "requested_schema": SCHEMA}


def test_an_address_comes_with_its_host() -> None:
    assert asking(LOGIN).describe() == {
        "mode": "url",
        "message": "Log in, please.",
        "url": "https://login.example.com/start?x=1",
        "host": "login.example.com",
    }


def test_several_questions_are_one_form() -> None:
    described = asking(SIZE, LOGIN).describe()
    assert described["mode"] == "form"
    assert described["message"] == "For how many?\nLog in, please."
    fields = described["requested_schema"]["properties"]
    assert fields["size"] == {**SCHEMA, "title": "For how many?"}
    assert fields["login"]["type"] == "boolean"
    assert "login.example.com" in fields["login"]["description"]


def test_what_waits_comes_back_from_json() -> None:
    requested = asking(SIZE, LOGIN, round=2, call_id="mcp_1")
    assert RequestedInput.from_json(orjson.loads(orjson.dumps(requested.to_json()))) == requested
    given = give_content(asking(), {"people": 2})
    assert GivenInput.from_json(orjson.loads(orjson.dumps(given.to_json()))) == given


@pytest.mark.parametrize(
    ("requested", "fault"),
    [
        (asking(), None),
        (asking(LOGIN), None),
        (RequestedInput(forms=(), state="x"), "it does not say what it needs"),
        (replace(asking(), state="x" * 1001), "its state has more than 1000 bytes"),
        (replace(asking(), state="\ud800" * 400), "its state has more than 1000 bytes"),
        (asking(replace(SIZE, message="x" * 1001)), "its forms have more than 1000 bytes"),
        (asking(replace(SIZE, schema={"$ref": "https://example.com/schema"})), "its schema refers to"),
        *(
            (asking(replace(LOGIN, url=url)), "it wants the user to open an address that is not https")
            for url in (
                "http://login.example.com",
                "javascript:alert(1)",
                "https://",
                "https://user:password@login.example.com",
                "https://login.example.com/ a",
                "https://login.example.com/\u202e",
                "https://login.ex\u0430mple.com/",
                "https://login.example.com/\x00",
                "https://login.example.com:0/",
                "https://[::1",
                "https://evil.example\\.bank.example/login",
                "https://evil.example/\\bank.example",
                "https://bank.example%2eevil.example/",
                "https://bank.example;evil.example/",
                "https://bank_example/",
                "https://-bank.example/",
                "https://..bank.example/",
                "https://bank.example\t/",
                "https://0x7f.1/",
                "https://2130706433/",
                "https://127.1./",
                "https://[fe80::1%25eth0]/",
            )
        ),
    ],
)
def test_what_nobody_can_be_asked_for(requested: RequestedInput, fault: str | None) -> None:
    found = fault_of(requested)
    assert found == fault or (found is not None and fault is not None and found.startswith(fault))


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://LOGIN.example.com:8443/a@b?c=%20", "login.example.com"),
        ("https://xn--bcher-kva.example./", "xn--bcher-kva.example."),
        ("https://1.example.0xyz/", "1.example.0xyz"),
        ("https://192.0.2.1/", "192.0.2.1"),
        ("https://[2001:db8::1]:443/", "2001:db8::1"),
    ],
)
def test_a_host_is_a_plain_name_or_an_address(url: str, host: str) -> None:
    form = replace(LOGIN, url=url)
    assert fault_of(asking(form)) is None
    assert form.host == host


def test_an_address_may_not_be_longer_than_clients_take() -> None:
    assert fault_of(asking(replace(LOGIN, url="https://x.example/" + "x" * 9000)), 20_000) is not None


def test_content_accepts_a_form() -> None:
    given = give_content(asking(round=3, call_id="mcp_1"), {"people": 2, "tags": ["a"]})
    assert given.responses == {"size": {"action": "accept", "content": {"people": 2, "tags": ["a"]}}}
    assert (given.state, given.round, given.call_id) == ("opaque", 3, "mcp_1")


def test_a_form_without_required_fields_can_be_accepted_as_it_is() -> None:
    confirmation = asking(replace(SIZE, schema={"type": "object", "properties": {}}))
    assert give_content(confirmation, None).responses == {"size": {"action": "accept", "content": {}}}


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
def test_content_that_does_not_fit(content: Any, reason: str) -> None:
    with pytest.raises(UnfitContent) as unfit:
        give_content(asking(), content)
    assert reason in str(unfit.value)


def test_an_address_takes_no_content() -> None:
    assert give_content(asking(LOGIN), None).responses == {"login": {"action": "accept"}}
    with pytest.raises(UnfitContent, match="takes no content"):
        give_content(asking(LOGIN), {"done": True})


def test_of_several_questions_those_that_are_left_out_are_declined() -> None:
    both = asking(SIZE, LOGIN)
    accepted = {"action": "accept", "content": {"people": 1}}
    declined = {"action": "decline"}
    assert give_content(both, {"size": {"people": 1}}).responses == {"size": accepted, "login": declined}
    assert give_content(both, {"login": True}).responses == {"size": declined, "login": {"action": "accept"}}
    assert give_content(both, {"login": False}).responses == {"size": declined, "login": declined}
    for content in ("yes", {"other": 1}, {"size": {"people": 0}}):
        with pytest.raises(UnfitContent):
            give_content(both, content)


def test_a_user_may_decline_or_leave_every_question() -> None:
    assert refuse_input(asking(SIZE, LOGIN), "decline").responses == {
        "size": {"action": "decline"},
        "login": {"action": "decline"},
    }
    assert refuse_input(asking(), "cancel").responses == {"size": {"action": "cancel"}}
