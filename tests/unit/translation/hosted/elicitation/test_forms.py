"""Requests for user input: their form for clients, and refusals."""

from dataclasses import replace

import orjson
import pytest

from tests.unit.translation.hosted.elicitation.requested_inputs import LOGIN, SCHEMA, SIZE, asking
from translation.hosted.bounds import DEFAULT_SCHEMA_LIMITS
from translation.hosted.elicitation.answers import UserInput, accept_input
from translation.hosted.elicitation.forms import RequestedInput, find_form_fault


def fault_of(requested: RequestedInput, max_bytes: int = 1000) -> str | None:
    return find_form_fault(requested, max_bytes=max_bytes, schema_limits=DEFAULT_SCHEMA_LIMITS)


def test_one_form_is_described_as_the_server_sent_it() -> None:
    assert asking().describe() == {"mode": "form", "message": "For how many?", "requested_schema": SCHEMA}


def test_an_address_is_described_with_its_host() -> None:
    assert asking(LOGIN).describe() == {
        "mode": "url",
        "message": "Log in, please.",
        "url": "https://login.example.com/start?x=1",
        "host": "login.example.com",
    }


def test_several_requests_are_one_form() -> None:
    described = asking(SIZE, LOGIN).describe()
    assert described["mode"] == "form"
    assert described["message"] == "For how many?\nLog in, please."
    fields = described["requested_schema"]["properties"]
    assert fields["size"] == {**SCHEMA, "title": "For how many?"}
    assert fields["login"]["type"] == "boolean"
    assert "login.example.com" in fields["login"]["description"]


def test_requests_and_answers_survive_as_json() -> None:
    requested = asking(SIZE, LOGIN, round=2, call_id="mcp_1")
    assert RequestedInput.from_json(orjson.loads(orjson.dumps(requested.to_json()))) == requested
    given = accept_input(asking(), {"people": 2})
    assert UserInput.from_json(orjson.loads(orjson.dumps(given.to_json()))) == given


@pytest.mark.parametrize(
    ("requested", "fault"),
    [
        (asking(), None),
        (asking(LOGIN), None),
        (RequestedInput(forms=(), state="x"), "it does not say what it needs"),
        (replace(asking(), state="x" * 1001), "its state has more than 1000 bytes"),
        (replace(asking(), state="\ud800" * 400), "its state has more than 1000 bytes"),
        (asking(replace(SIZE, message="x" * 1001)), "its forms have more than 1000 bytes"),
        (asking(replace(SIZE, schema={"maximum": 2**64})), "its forms have a number of more than 64 bits, or too many"),
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
def test_unsafe_requests_for_input_have_a_fault(requested: RequestedInput, fault: str | None) -> None:
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


def test_an_address_may_not_be_longer_than_clients_accept() -> None:
    assert fault_of(asking(replace(LOGIN, url="https://x.example/" + "x" * 9000)), 20_000) is not None
