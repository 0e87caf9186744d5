"""Unreadable media in the output of a call become a text about the error, and the turn continues."""

import json

import pytest

from tests.faults.client_view import CHAT, RESPONSES, Json, client, question
from tests.faults.config import StartGateway, config
from tests.upstream import ScriptedUpstream, chat_text
from tests.upstream.builders import responses_text

BAD = "data:image/png;base64,!!!"
ERROR = "[The image of this output cannot be read: its content is not base64.]"
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
BODIES: dict[str, Json] = {
    RESPONSES: {
        "input": [
            {"role": "user", "content": "Look."},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_image", "image_url": BAD}]},
        ]
    },
    CHAT: {
        "messages": [
            {"role": "user", "content": "Look."},
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "image_url", "image_url": {"url": BAD}}]},
        ]
    },
}


@pytest.mark.parametrize(
    ("path", "dialect"),
    [(RESPONSES, "chat"), (RESPONSES, "responses"), (CHAT, "chat")],
    ids=["translated", "relayed", "chat"],
)
async def test_the_model_reads_why_media_could_not_be_loaded(path: str, dialect: str, gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream, client() as asking:
        upstream.script(chat_text("I see.") if dialect == "chat" else responses_text("I see."))
        url = gateway(config(upstream.url, dialect)).v1
        reply = await asking.post(url + path, json={**question(path, stream=False), **BODIES[path]})
        assert reply.status_code == 200
        assert "media replaced" in reply.headers["x-gateway-loss"]
        assert ERROR in json.dumps(upstream.requests[0].json)
        strict = await asking.post(
            url + path, json={**question(path, stream=False), **BODIES[path]}, headers={"x-gateway-strict": "true"}
        )
        assert strict.status_code == 400


async def test_a_message_with_such_media_reaches_the_upstream(gateway: StartGateway) -> None:
    part = {"type": "image_url", "image_url": {"url": BAD}}
    async with ScriptedUpstream() as upstream, client() as asking:
        upstream.script(chat_text("I see."))
        url = gateway(config(upstream.url, "chat")).v1
        await asking.post(
            url + CHAT, json={**question(CHAT, stream=False), "messages": [{"role": "user", "content": [part]}]}
        )
        assert upstream.requests[0].json["messages"][0]["content"] == [part]
