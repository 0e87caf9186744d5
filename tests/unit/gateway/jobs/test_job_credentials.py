"""Credentials of jobs: sealed for one owner and one response, by keys of the configuration only."""

import pytest

from gateway.jobs.job_credentials import JobCredentials, list_credential_labels
from gateway.sealing.sealer import UnsealFailed
from translation.representation.json_types import Json
from translation.tools.credentials import remove_body_credentials

KEYS = (b"k" * 32,)
PLAIN: Json = {"type": "mcp", "server_label": "open", "server_url": "https://mcp.example.org"}
TOOL: Json = {**PLAIN, "server_label": "docs", "authorization": "secret-1"}
REQUEST: Json = {
    "model": "m",
    "tools": [TOOL, PLAIN],
    "input": [{"type": "message", "content": "Hi"}, {"type": "additional_tools", "tools": [TOOL]}],
}


def test_credentials_are_restored_in_their_places() -> None:
    credentials = JobCredentials(KEYS)
    sealed = credentials.seal(REQUEST, "ann", "resp_1")
    assert sealed is not None
    assert "secret-1" not in sealed
    stored = remove_body_credentials(REQUEST)
    assert "secret-1" not in str(stored)
    assert credentials.restore(stored, sealed, "ann", "resp_1") == REQUEST
    plain = {**REQUEST, "input": "Hi"}
    sealed = credentials.seal(plain, "ann", "resp_1") or ""
    assert credentials.restore(remove_body_credentials(plain), sealed, "ann", "resp_1") == plain


@pytest.mark.parametrize(("owner", "response_id"), [("bob", "resp_1"), ("ann", "resp_2")])
def test_they_open_for_their_owner_and_response_only(owner: str, response_id: str) -> None:
    credentials = JobCredentials(KEYS)
    sealed = credentials.seal(REQUEST, "ann", "resp_1") or ""
    with pytest.raises(UnsealFailed):
        credentials.restore(REQUEST, sealed, owner, response_id)
    with pytest.raises(UnsealFailed):
        JobCredentials((b"x" * 32,)).restore(REQUEST, sealed, "ann", "resp_1")


def test_without_a_key_of_the_configuration_nothing_is_sealed() -> None:
    assert JobCredentials(()).seal(REQUEST, "ann", "resp_1") is None


def test_only_servers_with_credentials_are_listed() -> None:
    assert list_credential_labels(REQUEST) == ["docs"]
    assert list_credential_labels({"model": "m"}) == []
