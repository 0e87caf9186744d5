"""An upstream may end a text with another form of it: what was streamed stands, and the difference is reported.

Servers that separate thinking only at the end stream it in the text, and some normalize or trim the whole text.
"""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.faults.client_view import CHAT, GEMINI, MESSAGES, OLLAMA, RESPONSES, address_of, ask, client, question
from tests.faults.config import config
from tests.serving import command, serving
from tests.upstream import ScriptedUpstream, chat_chunk, chat_sse, responses_sse
from tests.upstream.builders import message_item, response_snapshot, text_events

Json = dict[str, Any]
APIS = (CHAT, RESPONSES, MESSAGES, GEMINI, OLLAMA)
DIFFERS = "output.final_text=differs from the deltas"
CAFE, CAFE_APART = "Café", "Cafe\u0301"
WORDS = [f"word{number} " for number in range(40)]


class Form(NamedTuple):
    """A text in deltas, and the upstream's final value of it."""

    deltas: list[str]
    final: str
    thought: str = ""
    is_reported: bool = True


FORMS = {
    "thinking in the text": Form(["<think>", "Hm.", "</think>", "\n\n", *WORDS], "".join(WORDS).strip()),
    "thinking in the text, and its own field": Form(["<think>Hm.</think>\n\n", *WORDS], "".join(WORDS), "Hm."),
    "a thinking tag in pieces": Form(["<thi", "nk>", "Hm.</", "think>", *WORDS], "".join(WORDS)),
    "thinking without its opening tag": Form(["Hm.", "</think>", *WORDS], "".join(WORDS), "Hm."),
    "composed letters": Form([*WORDS, CAFE_APART], f"{''.join(WORDS)}{CAFE}"),
    "some composed letters": Form([CAFE, *WORDS, CAFE_APART], f"{CAFE}{''.join(WORDS)}{CAFE}"),
    "white space that was trimmed": Form(["\u00a0", *WORDS, "\u3000"], "".join(WORDS).strip(), is_reported=False),
}
OTHERS = {
    "another text after thinking": Form(["<think>Hm.</think>", *WORDS], "other"),
    "another letter": Form([*WORDS, CAFE_APART], f"{''.join(WORDS)}Cafè"),
}


def chat_script(form: Form) -> Any:
    last = chat_chunk({}, "stop")
    last["choices"][0]["message"] = {"role": "assistant", "content": form.final} | (
        {"reasoning_content": form.thought} if form.thought else {}
    )
    return chat_sse([chat_chunk({"role": "assistant", "content": ""}), *map(delta_chunk, form.deltas), last])


def delta_chunk(text: str) -> Json:
    return chat_chunk({"content": text})


def responses_script(form: Form) -> Any:
    """Returns a stream whose deltas are raw, and whose final values are not. The last output has the thinking."""
    events = text_events(*form.deltas)
    whole = message_item(form.final)
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}
    output = [thought, whole] if form.thought else [whole]
    events[-4] |= {"text": form.final}
    events[-3] |= {"part": whole["content"][0]}
    events[-2] |= {"item": whole}
    events[-1] |= {"response": response_snapshot("completed", output)}
    return responses_sse(events)


SCRIPTS = {"chat": chat_script, "responses": responses_script}


async def read_stream(base_url: str, api: str) -> str:
    body = question(api, stream=True)
    async with client() as asking:
        root = base_url.removesuffix("/v1") if api == OLLAMA else base_url
        return (await asking.post(root + address_of(api, body), json=body)).text


def text_in(api: str, stream: str) -> str:
    """Returns the text in the deltas of a stream of the API that its upstream has too."""
    events = [json.loads(line[6:]) for line in stream.split("\n") if line.startswith("data: {")]
    if api == RESPONSES:
        return "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
    return "".join(choice["delta"].get("content") or "" for event in events for choice in event["choices"])


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("dialect", SCRIPTS)
async def test_what_was_streamed_stands_and_the_difference_is_reported(dialect: str, form: Form) -> None:
    same_api = {"chat": CHAT, "responses": RESPONSES}[dialect]
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(ScriptedUpstream())
        running = stack.enter_context(serving(config(upstream.url, dialect)))
        upstream.script(SCRIPTS[dialect](form))
        streams = dict(zip(APIS, await asyncio.gather(*(read_stream(running.v1, api) for api in APIS)), strict=True))
        translated = [api for api in APIS if api != same_api]
        seen = await asyncio.gather(*(ask(running.v1, api, stream=True) for api in translated))
        whole = await asyncio.gather(*(ask(running.v1, api, stream=False) for api in translated))
    text = "".join(form.deltas)
    assert {each.text for each in seen} == {text}
    assert {each.text.strip() for each in whole} == {text.strip()}
    assert {each.ending for each in (*seen, *whole)} == {"completed"}
    assert {each.reasoning for each in (*seen, *whole)} == {""}, "the thinking is in the text already"
    assert text_in(same_api, streams[same_api]) == text
    assert {api: DIFFERS in stream for api, stream in streams.items()} == dict.fromkeys(APIS, form.is_reported)


@pytest.mark.parametrize("form", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("dialect", SCRIPTS)
async def test_another_text_still_fails(dialect: str, form: Form) -> None:
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(ScriptedUpstream())
        running = stack.enter_context(serving(config(upstream.url, dialect)))
        upstream.script(SCRIPTS[dialect](form))
        seen = await asyncio.gather(*(ask(running.v1, api, stream=True) for api in APIS if api != CHAT))
        streamed = await read_stream(running.v1, CHAT)
    assert {each.ending for each in seen} == {"failed"}
    assert '"finish_reason":"error"' in streamed


@pytest.mark.parametrize("parsing_format", ["leading_think_tags", "think_tags"])
async def test_thinking_that_the_gateway_separates_is_no_difference(parsing_format: str) -> None:
    form = FORMS["thinking in the text, and its own field"]
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(ScriptedUpstream())
        settings = config(upstream.url, "chat")
        settings["models"]["*"]["parsing_format"] = parsing_format
        running = stack.enter_context(serving(settings))
        upstream.script(chat_script(form))
        seen = await ask(running.v1, RESPONSES, stream=True)
        streams = await asyncio.gather(*(read_stream(running.v1, api) for api in APIS))
    assert (seen.text.strip(), seen.reasoning, seen.ending) == (form.final.strip(), "Hm.", "completed")
    assert [DIFFERS in stream for stream in streams] == [False] * len(APIS)


async def test_a_whole_reply_reports_the_difference_in_its_header_and_a_stream_in_the_log(tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_script(FORMS["composed letters"]))
        with command(config(upstream.url, "chat"), tmp_path, forked=True) as gateway:
            async with client() as asking:
                reply = await asking.post(gateway.v1 + RESPONSES, json=question(RESPONSES, stream=False))
            await read_stream(gateway.v1, MESSAGES)
            await read_stream(gateway.v1, CHAT)
        lines = gateway.read_log_lines()
    assert reply.headers["x-gateway-loss"] == DIFFERS
    assert [line["unreported"] for line in lines if line["message"] == "request"] == ["output.final_text"] * 3
