"""The official SDK of the Messages API against the demo model, over a socket."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anthropic import Anthropic, DefaultHttpxClient, NotFoundError, beta_tool
from httpx2 import RemoteProtocolError

from tests import databases
from tests.serving import Gateway, serving

DEMO = {"providers": {"demo": {"type": "scripted"}}, "models": {"demo": {"provider": "demo"}}}
HELLO: list[Any] = [{"role": "user", "content": "Hello there"}]


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with serving(DEMO) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def client(gateway: Gateway) -> Iterator[Anthropic]:
    with Anthropic(base_url=gateway.url, api_key="none", max_retries=0) as client:
        yield client


def test_a_message_has_text(client: Anthropic) -> None:
    message = client.messages.create(model="demo", max_tokens=100, messages=HELLO)
    (block,) = message.content
    assert block.type == "text"
    assert block.text == "You said: Hello there"
    assert (message.stop_reason, message.usage.output_tokens) == ("end_turn", 4)
    assert message._request_id is not None
    assert message._request_id.startswith("req_")


def test_the_stream_helper_adds_up_to_the_final_message(client: Anthropic) -> None:
    with client.messages.stream(model="demo", max_tokens=100, messages=HELLO) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == "You said: Hello there"
    assert final.model_dump()["content"][0]["text"] == text
    assert (final.stop_reason, final.usage.input_tokens, final.usage.output_tokens) == ("end_turn", 2, 4)


def test_an_unknown_model_is_the_error_of_the_sdk(client: Anthropic) -> None:
    with pytest.raises(NotFoundError) as caught:
        client.messages.create(model="nowhere", max_tokens=100, messages=HELLO)
    assert caught.value.body == {
        "type": "error",
        "error": {
            "type": "not_found_error",
            "message": "the model 'nowhere' does not exist: GET /v1/models lists those that do",
        },
        "request_id": caught.value.request_id,
    }


def test_tokens_are_counted(client: Anthropic) -> None:
    assert client.messages.count_tokens(model="demo", messages=HELLO).input_tokens == 2


def test_models_are_listed_page_by_page(client: Anthropic) -> None:
    assert [model.id for model in client.models.list(limit=1)] == ["demo"]
    assert client.models.retrieve("demo").display_name == "demo"


@beta_tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return "forty-two"


ADD: list[Any] = [{"role": "user", "content": "Add."}]


def test_a_tool_runner_continues_without_a_thread(client: Anthropic) -> None:
    runner = client.beta.messages.tool_runner(model="demo", max_tokens=500, messages=ADD, tools=[add])
    *_, last = list(runner)
    assert "forty-two" in str(last.content)


@pytest.mark.parametrize("stream", [False, True])
def test_with_a_store_a_tool_runner_sends_only_new_messages(tmp_path: Path, *, stream: bool) -> None:
    url = databases.ready_sqlite(tmp_path / "state.db")
    sent: list[Any] = []
    with (
        serving({**DEMO, "store": {"url": url}}) as gateway,
        DefaultHttpxClient(event_hooks={"request": [lambda request: sent.append(json.loads(request.content))]}) as http,
        Anthropic(base_url=gateway.url, api_key="none", max_retries=0, http_client=http) as client,
    ):
        runner: Any = client.beta.messages.tool_runner(
            model="demo", max_tokens=500, messages=ADD, tools=[add], system="Be brief.", stream=stream
        )
        *_, last = list(runner) if not stream else [reply.get_final_message() for reply in runner]
    assert "forty-two" in str(last.content)
    first, second = sent
    assert first["thread"] == {"type": "create"}
    assert second["thread"]["type"] == "continue"
    assert [block["type"] for message in second["messages"] for block in message["content"]] == ["tool_result"]
    assert not {"system", "tools"} & second.keys()


def test_a_runner_of_tools_whose_reply_is_lost_sends_the_whole_conversation(tmp_path: Path) -> None:
    """The SDK repeats the request as it was, finds that its message has been continued, and creates a new thread."""
    url = databases.ready_sqlite(tmp_path / "state.db")
    sent: list[Any] = []
    codes: list[Any] = []

    def note_request(request: Any) -> None:
        sent.append(json.loads(request.content))

    def lose_second_reply(response: Any) -> None:
        response.read()
        if len(sent) == 2:
            raise RemoteProtocolError("lost", request=response.request)
        if response.status_code != 200:
            codes.append(response.json()["error"]["details"])

    hooks: Any = {
        "request": [lambda request: sent.append(json.loads(request.content))],
        "response": [lose_second_reply],
    }
    with (
        serving({**DEMO, "store": {"url": url}}) as gateway,
        DefaultHttpxClient(event_hooks=hooks) as http,
        Anthropic(base_url=gateway.url, api_key="none", max_retries=1, http_client=http) as client,
    ):
        runner: Any = client.beta.messages.tool_runner(model="demo", max_tokens=500, messages=ADD, tools=[add])
        *_, last = list(runner)
    assert "forty-two" in str(last.content)
    assert [body["thread"]["type"] for body in sent] == ["create", "continue", "continue", "create"]
    assert sent[2] == sent[1]
    assert codes == [{"error_code": "thread_already_continued"}]
