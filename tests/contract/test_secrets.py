"""Failure messages of an upstream reach the client without the upstream's key and address."""

import base64
import json

import pytest

from tests.faults.client_view import CHAT, RESPONSES, client, question
from tests.faults.config import KEY, config
from tests.serving import serving
from tests.upstream import ScriptedUpstream, chat_sse, json_reply, responses_sse, sse_reply
from tests.upstream.builders import MODEL, chat_chunk, data_frame, either, response_snapshot, text_events

ROUTES = [(CHAT, "chat"), (RESPONSES, "chat"), (CHAT, "responses"), (RESPONSES, "responses")]
HEADER = "header-secret"


def failing(words: str, dialect: str, begun: bool):
    """Streams that fail before or after content, and whole answers that are errors."""
    error = {"message": words, "type": "server_error", "code": None}
    failed = response_snapshot("failed", error={"code": "server_error", "message": words})
    if dialect == "chat":
        opening = [chat_chunk({"content": "Hello"})] if begun else []
        return either(chat_sse([*opening, {"error": error}]), json_reply({"error": error}))
    opening = text_events("Hello")[: 5 if begun else 1]
    return either(responses_sse([*opening, {"type": "response.failed", "response": failed}]), json_reply(failed))


@pytest.mark.parametrize(("path", "dialect"), ROUTES, ids=[f"{dialect} for {path}" for path, dialect in ROUTES])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("begun", [True, False], ids=["after content", "before content"])
async def test_a_failure_is_reported_without_key_and_address(
    path: str, dialect: str, stream: bool, begun: bool
) -> None:
    async with ScriptedUpstream() as upstream:
        words = f"boom at {upstream.url}/x (127.0.0.1:{upstream.port}) with {KEY} and {HEADER}"
        upstream.script(failing(words, dialect, begun))
        with serving(config(upstream.url, dialect, headers={"x-secret": HEADER})) as gateway:
            async with client() as asking:
                reply = await asking.post(gateway.v1 + path, json=question(path, stream=stream))
        assert "boom at" in reply.text
        for private in (KEY, HEADER, str(upstream.port)):
            assert private not in reply.text


@pytest.mark.parametrize(("path", "dialect"), ROUTES, ids=[f"{dialect} for {path}" for path, dialect in ROUTES])
@pytest.mark.parametrize("status", [200, 400], ids=["within a reply", "by its status"])
async def test_no_form_of_the_key_is_in_any_field_of_an_error(path: str, dialect: str, status: int) -> None:
    encoded, escaped = (
        base64.b64encode(f"user:{KEY}".encode()).decode(),
        "".join(f"%{byte:02x}" for byte in KEY.encode()),
    )
    forms = [KEY.upper(), encoded, escaped]
    error = {"message": f"boom {forms}", "type": "x", "code": forms[0], "param": f"input.{forms[2]}.{KEY}"}
    failed = response_snapshot("failed", error=error)
    answer = failed if status == 200 and dialect == "responses" else {"error": error}
    async with ScriptedUpstream() as upstream:
        upstream.script(json_reply(answer, status))
        with serving(config(upstream.url, dialect)) as gateway:
            async with client() as asking:
                reply = await asking.post(gateway.v1 + path, json=question(path, stream=False))
    assert "boom" in reply.text
    for form in [KEY, *forms]:
        assert form not in reply.text


@pytest.mark.parametrize("path", [CHAT, RESPONSES])
async def test_a_refused_key_inside_a_good_status_is_no_fault_of_the_client(path: str) -> None:
    error = {"message": "Incorrect API key provided: ups***cret", "type": "x", "code": "invalid_api_key"}
    async with ScriptedUpstream() as upstream:
        upstream.script(either(sse_reply(data_frame({"error": error})), json_reply({"error": error})))
        with serving(config(upstream.url, "chat")) as gateway:
            async with client() as asking:
                for stream in (True, False):
                    reply = await asking.post(gateway.v1 + path, json=question(path, stream=stream, model=MODEL))
                    assert reply.status_code == 502
                    assert json.loads(reply.text)["error"]["code"] == "upstream_unauthorized"
                    assert "***" not in reply.text
