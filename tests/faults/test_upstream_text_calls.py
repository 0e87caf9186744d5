"""An upstream that writes its calls as text: clients get calls, and a call that turns out to be none has a name."""

import json
from pathlib import Path

import pytest

from tests.faults.config import StartGateway, config
from tests.faults.seen import CHAT, RESPONSES, Json, Seen, ask, client, frames, question
from tests.serving import command
from tests.upstream import ScriptedUpstream, chat_text

F = '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>'
UNFIT = '<tool_call>{"name": "f", "arguments": {"a": "x"}}</tool_call>'
CUT = '<tool_call>{"name": "f", "arguments": {"a": '
FUNCTION: Json = {
    "name": "f",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
}
TOOLS = {RESPONSES: [{"type": "function", **FUNCTION}], CHAT: [{"type": "function", "function": FUNCTION}]}
ENDPOINTS = pytest.mark.parametrize("path", [RESPONSES, CHAT])
FORMS = pytest.mark.parametrize("stream", [True, False], ids=["streaming", "whole"])


def told_in_words(base_url: str, **model: object) -> Json:
    said = config(base_url, "chat")
    said["models"] = {"*": {"provider": "upstream", "text_tool_calls": "hermes", **model}}
    return said


@ENDPOINTS
@FORMS
async def test_calls_written_as_text_are_calls(path: str, stream: bool, gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_text("Let me see.", F[:15], F[15:40], F[40:]))
        base_url = gateway(told_in_words(upstream.url)).v1
        seen = await ask(base_url, path, stream=stream, tools=TOOLS[path])
    assert seen == Seen(200, "completed", text="Let me see.", calls=(("f", '{"a": 1}'),))


@ENDPOINTS
async def test_the_upstream_is_told_of_tools_in_words(path: str, gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_text("Hi."))
        base_url = gateway(told_in_words(upstream.url, single_tool_block=True)).v1
        await ask(base_url, path, stream=True, tools=TOOLS[path], tool_choice="required")
        (asked,) = upstream.requests
    body = asked.json
    assert "tools" not in body
    assert "You must call a function now." in body["messages"][0]["content"]
    assert body["stop"] == ["</tool_call>"]


@ENDPOINTS
@pytest.mark.parametrize("text", [UNFIT, CUT], ids=["does not fit", "breaks off"])
async def test_a_streamed_call_that_is_none_ends_the_stream(path: str, text: str, gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_text(text[:40], text[40:]))
        base_url = gateway(told_in_words(upstream.url)).v1
        seen = await ask(base_url, path, stream=True, tools=TOOLS[path])
    assert (seen.status, seen.ending, seen.code) == (200, "failed", "tool_call_parse_error")


async def test_a_chat_stream_says_the_failure_in_its_last_chunk(gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream, client() as asking:
        upstream.script(chat_text(UNFIT))
        base_url = gateway(told_in_words(upstream.url)).v1
        reply = await asking.post(base_url + CHAT, json=question(CHAT, stream=True, tools=TOOLS[CHAT]))
    last = json.loads(frames(reply.content)[-1][1])
    assert last["choices"][0]["finish_reason"] == "error"
    assert last["error"]["type"] == last["error"]["code"] == "tool_call_parse_error"


async def test_a_responses_stream_ends_as_failed(gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream, client() as asking:
        upstream.script(chat_text(UNFIT))
        base_url = gateway(told_in_words(upstream.url)).v1
        reply = await asking.post(base_url + RESPONSES, json=question(RESPONSES, stream=True, tools=TOOLS[RESPONSES]))
    name, data = frames(reply.content)[-1]
    response = json.loads(data)["response"]
    assert name == "response.failed"
    # The official clients know a closed list of codes; ours is beside it.
    assert (response["error"]["code"], response["error"]["type"]) == ("server_error", "tool_call_parse_error")
    assert [item["status"] for item in response["output"]] == ["incomplete"]


@ENDPOINTS
async def test_a_whole_answer_leaves_out_the_call_that_does_not_fit(path: str, gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_text(f"{UNFIT}{F}"))
        base_url = gateway(told_in_words(upstream.url)).v1
        seen = await ask(base_url, path, stream=False, tools=TOOLS[path])
    assert seen == Seen(200, "completed", calls=(("f", '{"a": 1}'),))


@ENDPOINTS
async def test_a_whole_answer_names_the_calls_that_did_not_fit(path: str, gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream, client() as asking:
        upstream.script(chat_text(f"{UNFIT}{F}"))
        base_url = gateway(told_in_words(upstream.url)).v1
        reply = await asking.post(base_url + path, json=question(path, stream=False, tools=TOOLS[path]))
    assert reply.headers["x-gateway-loss"] == "tool_calls=f has a warning"


@ENDPOINTS
async def test_a_whole_answer_of_nothing_but_a_broken_call_says_so(path: str, gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_text(CUT))
        base_url = gateway(told_in_words(upstream.url)).v1
        seen = await ask(base_url, path, stream=False, tools=TOOLS[path])
    assert seen == Seen(200, "completed", text="The model began a tool call and did not finish it.")


@ENDPOINTS
@FORMS
async def test_a_call_that_does_not_fit_may_be_passed_on(path: str, stream: bool, gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_text(UNFIT))
        base_url = gateway(told_in_words(upstream.url, tool_validation="report")).v1
        seen = await ask(base_url, path, stream=stream, tools=TOOLS[path])
    assert seen == Seen(200, "completed", calls=(("f", '{"a": "x"}'),))


async def test_the_log_counts_calls_that_do_not_fit_and_says_nothing_of_them(tmp_path: Path) -> None:
    unknown = '<tool_call>{"name": "secret", "arguments": {"a": "secret"}}</tool_call>'
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_text(f"Hi. {unknown}{unknown}"))
        with command(told_in_words(upstream.url), tmp_path, forked=True) as gateway:
            for stream in (True, False):
                seen = await ask(gateway.v1, CHAT, stream=stream, tools=TOOLS[CHAT])
                assert seen == Seen(200, "completed", text="Hi. ")
            await ask(gateway.v1, CHAT, stream=True)
        text = gateway.log.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert "secret" not in text
    assert [line.get("tool_warnings") for line in lines if line["message"] == "request"] == [2, 2, None]


@ENDPOINTS
@FORMS
async def test_a_client_that_wants_no_calls_gets_text(path: str, stream: bool, gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_text(F))
        base_url = gateway(told_in_words(upstream.url)).v1
        seen = await ask(base_url, path, stream=stream, tools=TOOLS[path], tool_choice="none")
    assert seen == Seen(200, "completed", text=F)


@ENDPOINTS
@FORMS
async def test_a_tool_of_another_kind_is_called_in_text_too(path: str, stream: bool, gateway: StartGateway) -> None:
    """Freeform tools ride on functions."""
    freeform = {"name": "run"}
    tools = [{"type": "custom", **freeform} if path == RESPONSES else {"type": "custom", "custom": freeform}]
    async with ScriptedUpstream() as upstream, client() as asking:
        upstream.script(chat_text('<tool_call>{"name": "run", "arguments": {"input": "ls"}}</tool_call>'))
        said = told_in_words(upstream.url)
        base_url = gateway(said).v1
        reply = await asking.post(base_url + path, json=question(path, stream=stream, tools=tools))
    assert reply.status_code == 200
    assert '"ls"' in reply.text
