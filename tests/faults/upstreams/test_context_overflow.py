"""A prompt that does not fit the context is an error of the client's own input, whatever upstream reports it."""

from collections.abc import Sequence
from typing import Any

import pytest

from providers.base import Capabilities, CountMethod, Dialect, Exchange, RelayExchange
from providers.capabilities import CAPABILITIES
from providers.engines.exchange import prepare_engine_exchange
from tests.agui_client import run_input, user
from tests.faults.client_view import CHAT, RESPONSES, client, question
from tests.faults.config import StartGateway, config
from tests.serving import serving
from tests.unit.support.fake_engine import FakeEngine
from tests.upstream import Reply, ScriptedUpstream, json_reply
from tests.upstream.builders import SSE, data_frame
from translation.representation.json_types import Json
from translation.representation.profile import Profile
from translation.representation.turn import Turn

LONG = "This model's maximum context length is 8 tokens. Your messages have 9."
FORMS = pytest.mark.parametrize("stream", [True, False], ids=["streaming", "whole"])
MODEL = {"model": "m"}
PARAMS = {RESPONSES: "input", CHAT: "messages", "/generate": "messages", "/agui": "messages"}


def error_object(param: str | None) -> Json:
    return {"message": LONG, "type": "invalid_request_error", "param": param, "code": "context_length_exceeded"}


async def refusal(url: str, path: str, *, stream: bool) -> tuple[int, Any, Any]:
    """The status, and the error's parameter and code."""
    body: Json = question(path, stream=stream) if path != "/agui" else run_input(user("Hello"), forwardedProps=MODEL)
    if path == "/generate":
        body = {"model": "m", "messages": [{"role": "user", "content": "Hello"}], "stream": stream}
    async with client() as asking:
        reply = await asking.post(url + (path if path == "/generate" else f"/v1{path}"), json=body)
    error = reply.json()["error"]
    return reply.status_code, error["param"], error["code"]


@FORMS
@pytest.mark.parametrize("path", PARAMS)
@pytest.mark.parametrize("dialect", ["chat", "responses"])
@pytest.mark.parametrize("param", ["messages", "input", None])
async def test_the_param_is_the_clients_input(
    path: str, stream: bool, dialect: str, param: str | None, gateway: StartGateway
) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(json_reply({"error": error_object(param)}, 400))
        url = gateway(config(upstream.url, dialect)).url
        assert await refusal(url, path, stream=stream) == (400, PARAMS[path], "context_length_exceeded")


@pytest.mark.parametrize("path", PARAMS)
async def test_an_error_in_the_stream_has_the_same_code(path: str, gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(Reply(headers=SSE, body=[data_frame({"error": error_object("prompt")})]))
        url = gateway(config(upstream.url, "chat")).url
        assert await refusal(url, path, stream=True) == (400, PARAMS[path], "context_length_exceeded")


async def test_a_token_limit_keeps_its_name(gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(json_reply({"error": error_object("max_tokens")}, 400))
        url = gateway(config(upstream.url, "chat")).url
        assert await refusal(url, CHAT, stream=False) == (400, "max_tokens", "context_length_exceeded")
        assert await refusal(url, RESPONSES, stream=False) == (400, "max_output_tokens", "context_length_exceeded")


class SmallEngine:
    """A provider whose engine has no room for any prompt."""

    name = "small"
    capabilities: Capabilities = CAPABILITIES["llama_server"]

    def prepare(self, turn: Turn, profile: Profile) -> Exchange:
        return prepare_engine_exchange(FakeEngine(["Yes"], context_window=2), turn, profile)

    def prepare_relay(self, dialect: Dialect, body: Json, credentials: Sequence[str] = ()) -> RelayExchange:
        raise AssertionError("engines relay nothing")

    async def count_tokens(self, turn: Turn, profile: Profile, method: CountMethod) -> int:
        raise AssertionError("nobody counts")

    async def list_models(self) -> list[str]:
        return []

    def redact(self, message: str) -> str:
        return message

    async def aclose(self) -> None:
        pass


@FORMS
@pytest.mark.parametrize("path", PARAMS)
async def test_an_engine_names_the_input(path: str, stream: bool) -> None:
    settings = {"providers": {"small": {"type": "scripted"}}, "models": {"*": {"provider": "small"}}}
    with serving(settings, {"small": SmallEngine()}) as running:
        assert await refusal(running.url, path, stream=stream) == (400, PARAMS[path], "context_length_exceeded")
