"""Vercel's AI SDK, over both APIs."""

import pytest

from tests.clients.client_processes import ClientProgram, InstalledClients
from tests.clients.conftest import Answer
from tests.serving import Gateway
from tests.upstream import ScriptedUpstream, chat_calls, chat_chunk, chat_sse, chat_text, error_reply

ADDS = chat_calls(("add", '{"a":2,"b":40}'))


@pytest.fixture(params=["responses", "chat"])
def sdk(request: pytest.FixtureRequest, clients: InstalledClients, gateway: Gateway) -> ClientProgram:
    return clients.program("frameworks/ai_sdk.mjs", BASE_URL=gateway.v1, API=request.param)


async def test_text_is_whole(sdk: ClientProgram, answer: Answer) -> None:
    answer(chat_text("Good ", "day."))
    got = await sdk.do("text")
    assert (got["text"], got["finishReason"]) == ("Good day.", "stop")
    assert (got["usage"]["inputTokens"], got["usage"]["outputTokens"]) == (9, 3)


async def test_text_streams(sdk: ClientProgram, answer: Answer) -> None:
    answer(chat_text("Good ", "day."))
    got = await sdk.do("text_streamed")
    assert (got["deltas"], got["finishReason"]) == (["Good ", "day."], "stop")
    assert (got["usage"]["inputTokens"], got["usage"]["outputTokens"]) == (9, 3)


async def test_an_answer_at_its_limit_is_marked_incomplete(sdk: ClientProgram, answer: Answer) -> None:
    answer(chat_text("Good", finish_reason="length"))
    assert (await sdk.do("text_streamed"))["finishReason"] == "length"


@pytest.mark.parametrize("case", ["tools", "tools_streamed"])
async def test_a_tool_runs_and_its_result_is_sent_back(
    case: str, sdk: ClientProgram, answer: Answer, upstream: ScriptedUpstream
) -> None:
    answer(ADDS, chat_text("It is 42."))
    got = await sdk.do(case)
    assert got["results"] == [{"input": {"a": 2, "b": 40}, "output": "42"}]
    assert got["text"] == "It is 42."
    assert upstream.requests[1].json["messages"][-1]["content"] == "42"


@pytest.mark.parametrize("case", ["tools", "tools_streamed"])
async def test_a_tool_of_the_demo_model_runs(case: str, sdk: ClientProgram) -> None:
    got = await sdk.do(case, model="demo")
    assert len(got["results"]) == 1
    assert got["text"].startswith("add returned: ")


async def test_an_object_fits_its_schema(sdk: ClientProgram, answer: Answer, upstream: ScriptedUpstream) -> None:
    answer(chat_text('{"total":42}'))
    assert (await sdk.do("object"))["object"] == {"total": 42}
    assert upstream.requests[0].json["response_format"]["type"] == "json_schema"


async def test_earlier_messages_are_sent_back(sdk: ClientProgram, answer: Answer, upstream: ScriptedUpstream) -> None:
    answer(chat_text("Good day, Ada."), chat_text("Ada."))
    assert (await sdk.do("conversation"))["text"] == "Ada."
    messages = [(message["role"], message["content"]) for message in upstream.requests[1].json["messages"]]
    assert messages == [
        ("system", "Be brief."),
        ("user", "I am Ada."),
        ("assistant", "Good day, Ada."),
        ("user", "Who am I?"),
    ]


async def test_reasoning_does_not_disturb_the_text(sdk: ClientProgram, answer: Answer) -> None:
    thoughts = [
        chat_chunk({"role": "assistant", "reasoning_content": "They "}),
        chat_chunk({"reasoning_content": "ask."}),
    ]
    answer(chat_sse([*thoughts, chat_chunk({"content": "Good day."}), chat_chunk({}, "stop")]))
    got = await sdk.do("reasoning_streamed")
    assert (got["text"], got["errors"]) == ("Good day.", [])


async def test_an_image_arrives_as_an_image(sdk: ClientProgram, answer: Answer, upstream: ScriptedUpstream) -> None:
    answer(chat_text("A dot."))
    assert (await sdk.do("image"))["text"] == "A dot."
    _, image = upstream.requests[0].json["messages"][-1]["content"]
    assert image["image_url"]["url"].startswith("data:image/png;base64,")


async def test_an_error_has_the_status_and_the_message_of_the_upstream(
    sdk: ClientProgram, upstream: ScriptedUpstream
) -> None:
    upstream.script(error_reply(429, "Slow down.", code="rate_limit_exceeded"))
    got = await sdk.do("failure")
    assert (got["name"], got["status"]) == ("AI_APICallError", 429)
    assert "Slow down." in got["message"]
