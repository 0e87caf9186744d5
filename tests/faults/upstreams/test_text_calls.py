"""An upstream that writes its calls as text: clients get calls, and an invalid call has an error code."""

import json
from pathlib import Path

import pytest

from tests.faults.client_view import CHAT, RESPONSES, Json, Seen, ask, client, question
from tests.faults.config import StartGateway, config
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


def text_tool_config(base_url: str, **model: object) -> Json:
    said = config(base_url, "chat")
    said["models"] = {"*": {"provider": "upstream", "text_tool_calls": "hermes", **model}}
    return said


@ENDPOINTS
@FORMS
async def test_calls_written_as_text_are_calls(path: str, stream: bool, gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_text("Let me see.", F[:15], F[15:40], F[40:]))
        base_url = gateway(text_tool_config(upstream.url)).v1
        seen = await ask(base_url, path, stream=stream, tools=TOOLS[path])
    assert seen == Seen(200, "completed", text="Let me see.", calls=(("f", '{"a": 1}'),))


@ENDPOINTS
async def test_tools_are_described_to_the_upstream_in_text(path: str, gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_text("Hi."))
        base_url = gateway(text_tool_config(upstream.url, single_tool_block=True)).v1
        await ask(base_url, path, stream=True, tools=TOOLS[path], tool_choice="required")
        (asked,) = upstream.requests
    body = asked.json
    assert "tools" not in body
    assert "You must call a function now." in body["messages"][0]["content"]
    assert body["stop"] == ["</tool_call>"]


@ENDPOINTS
@FORMS
async def test_a_call_that_does_not_fit_is_left_out(path: str, stream: bool, gateway: StartGateway) -> None:
    listed = '<tool_call>[{"name": "f", "arguments": {"a": "x"}}, {"name": "f", "arguments": {"a": 1}}]</tool_call>'
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_text(f"{UNFIT}{F}"), chat_text(listed[:40], listed[40:]))
        base_url = gateway(text_tool_config(upstream.url)).v1
        for _ in range(2):
            seen = await ask(base_url, path, stream=stream, tools=TOOLS[path])
            assert seen == Seen(200, "completed", calls=(("f", '{"a": 1}'),))


@ENDPOINTS
async def test_a_whole_answer_names_the_calls_that_did_not_fit(path: str, gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream, client() as asking:
        upstream.script(chat_text(f"{UNFIT}{F}"))
        base_url = gateway(text_tool_config(upstream.url)).v1
        reply = await asking.post(base_url + path, json=question(path, stream=False, tools=TOOLS[path]))
    assert reply.headers["x-gateway-loss"] == "tool_calls=f has a warning"


@ENDPOINTS
@FORMS
@pytest.mark.parametrize(
    ("text", "why"),
    [(UNFIT, 'arguments.a: "x" is not of type "integer"'), (CUT, "the text ends in the middle of a call")],
    ids=["does not fit", "breaks off"],
)
async def test_an_answer_of_nothing_but_a_bad_call_is_a_warning(
    path: str, text: str, why: str, stream: bool, gateway: StartGateway
) -> None:
    async with ScriptedUpstream() as upstream, client() as asking:
        upstream.script(chat_text(text[:40], text[40:]))
        base_url = gateway(text_tool_config(upstream.url)).v1
        reply = await asking.post(base_url + path, json=question(path, stream=stream, tools=TOOLS[path]))
    assert reply.status_code == 200
    assert "The model" not in reply.text
    warning = json.dumps({"name": "f", "why": why}, separators=(",", ":"))
    assert f'"tool_warnings":[{warning}]' in reply.text


@ENDPOINTS
@FORMS
async def test_an_answer_of_nothing_but_a_bad_call_reports_that_if_configured(
    path: str, stream: bool, gateway: StartGateway
) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_text(CUT))
        base_url = gateway(text_tool_config(upstream.url, fix_empty_final=True)).v1
        seen = await ask(base_url, path, stream=stream, tools=TOOLS[path])
    assert seen == Seen(200, "completed", text="The model made a tool call that cannot be run.")


@ENDPOINTS
@FORMS
async def test_a_call_that_does_not_fit_may_be_forwarded(path: str, stream: bool, gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_text(UNFIT))
        base_url = gateway(text_tool_config(upstream.url, tool_validation="report")).v1
        seen = await ask(base_url, path, stream=stream, tools=TOOLS[path])
    assert seen == Seen(200, "completed", calls=(("f", '{"a": "x"}'),))


async def test_the_log_counts_calls_that_do_not_fit_without_their_content(tmp_path: Path) -> None:
    unknown = '<tool_call>{"name": "secret", "arguments": {"a": "secret"}}</tool_call>'
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_text(f"Hi. {unknown}{unknown}"))
        with command(text_tool_config(upstream.url), tmp_path, forked=True) as gateway:
            for stream in (True, False):
                seen = await ask(gateway.v1, CHAT, stream=stream, tools=TOOLS[CHAT])
                assert seen == Seen(200, "completed", text="Hi. ")
            await ask(gateway.v1, CHAT, stream=True)
        text = gateway.read_log()
    lines = [json.loads(line) for line in text.splitlines()]
    assert "secret" not in text
    assert [line.get("tool_warnings") for line in lines if line["message"] == "request"] == [2, 2, None]


@ENDPOINTS
@FORMS
async def test_a_client_that_wants_no_calls_gets_text(path: str, stream: bool, gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_text(F))
        base_url = gateway(text_tool_config(upstream.url)).v1
        seen = await ask(base_url, path, stream=stream, tools=TOOLS[path], tool_choice="none")
    assert seen == Seen(200, "completed", text=F)


@ENDPOINTS
@FORMS
async def test_a_custom_tool_is_called_in_text_too(path: str, stream: bool, gateway: StartGateway) -> None:
    """Freeform tools become functions."""
    freeform = {"name": "run"}
    tools = [{"type": "custom", **freeform} if path == RESPONSES else {"type": "custom", "custom": freeform}]
    async with ScriptedUpstream() as upstream, client() as asking:
        upstream.script(chat_text('<tool_call>{"name": "run", "arguments": {"input": "ls"}}</tool_call>'))
        said = text_tool_config(upstream.url)
        base_url = gateway(said).v1
        reply = await asking.post(base_url + path, json=question(path, stream=stream, tools=tools))
    assert reply.status_code == 200
    assert '"ls"' in reply.text


@ENDPOINTS
@FORMS
@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("Wrap it as `<tool_call>` and end with `</tool_call>`. Done!", None),
        ("Wrap it as <tool_call> and end with </tool_call>. Done!", None),
        ('<TOOL_CALL>Sure: {"name": "f", "arguments": {"a": 1}} ok\n</TOOL_CALL>', ""),
    ],
    ids=["quoted tags", "tags in prose", "text around a call"],
)
async def test_prose_and_calls_are_distinguished(
    written: str, text: str | None, path: str, stream: bool, gateway: StartGateway
) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_text(*(written[at : at + 3] for at in range(0, len(written), 3))))
        base_url = gateway(text_tool_config(upstream.url)).v1
        seen = await ask(base_url, path, stream=stream, tools=TOOLS[path])
    calls = () if text is None else (("f", '{"a": 1}'),)
    assert seen == Seen(200, "completed", text=written if text is None else text, calls=calls)


@ENDPOINTS
@FORMS
async def test_text_before_a_closing_think_tag_is_reasoning(path: str, stream: bool, gateway: StartGateway) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_text("a", "</th", "ink>b"))
        base_url = gateway(text_tool_config(upstream.url, parsing_format="think_tags")).v1
        seen = await ask(base_url, path, stream=stream)
    assert seen == Seen(200, "completed", text="b", reasoning="a")


@ENDPOINTS
@FORMS
@pytest.mark.parametrize("first", ["", CUT], ids=["nothing", "a bad call"])
async def test_a_model_is_prompted_once_more_for_an_answer(
    path: str, stream: bool, first: str, gateway: StartGateway
) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_text(first), chat_text("Here."), chat_text(first))
        base_url = gateway(text_tool_config(upstream.url, fix_empty_final="retry")).v1
        seen = await ask(base_url, path, stream=stream, tools=TOOLS[path])
        assert (seen, len(upstream.requests)) == (Seen(200, "completed", text="Here."), 2)
        first_messages, second_messages = (request.json["messages"] for request in upstream.requests)
        assert second_messages[:-1] == first_messages
        assert second_messages[-1]["role"] == "user"
        assert "answer" in second_messages[-1]["content"]
        seen = await ask(base_url, path, stream=stream, tools=TOOLS[path])
        assert len(upstream.requests) == 4
        assert seen.text in (
            "The model made a tool call that cannot be run.",
            "The model ended its turn without an answer.",
        )
