"""The official SDKs in Python and in JavaScript, with the helpers that add up what streams."""

import pytest

from tests.clients.client_processes import ClientProgram, InstalledClients
from tests.clients.conftest import Answer
from tests.serving import Gateway
from tests.upstream import ScriptedUpstream, chat_calls, chat_chunk, chat_sse, chat_text, error_reply

ADDS = chat_calls(("add", '{"a":2,"b":40}'))


@pytest.fixture(params=["sdks/openai_sdk.py", "sdks/openai_sdk.mjs"], ids=["Python", "JavaScript"])
def sdk(request: pytest.FixtureRequest, clients: InstalledClients, gateway: Gateway) -> ClientProgram:
    return clients.program(request.param, BASE_URL=gateway.v1)


@pytest.mark.parametrize("case", ["response", "completion"])
async def test_text_is_whole(case: str, sdk: ClientProgram, answer: Answer) -> None:
    answer(chat_text("Good ", "day."))
    assert await sdk.do(case) == {"text": "Good day.", "usage": [9, 3]}


async def test_a_response_streams(sdk: ClientProgram, answer: Answer) -> None:
    answer(chat_text("Good ", "day."))
    assert await sdk.do("response_streamed") == {
        "deltas": ["Good ", "day."],
        "text": "Good day.",
        "output": ["message"],
    }


async def test_a_streamed_call_adds_up(sdk: ClientProgram, answer: Answer) -> None:
    answer(ADDS)
    assert (await sdk.do("response_streamed"))["output"] == ["function_call"]


async def test_a_chat_completion_streams(sdk: ClientProgram, answer: Answer) -> None:
    answer(chat_text("Good ", "day."))
    assert await sdk.do("completion_streamed") == {"deltas": ["Good ", "day."], "text": "Good day.", "usage": 12}


@pytest.mark.parametrize("case", ["response_parsed", "completion_parsed"])
async def test_an_answer_fits_its_format(case: str, sdk: ClientProgram, answer: Answer) -> None:
    answer(chat_text('{"total":42}'))
    assert await sdk.do(case) == {"total": 42}


async def test_a_tool_of_a_chat_completion_runs(sdk: ClientProgram, answer: Answer) -> None:
    answer(ADDS, chat_text("It is 42."))
    assert await sdk.do("completion_tools") == {"text": "It is 42.", "result": "42"}


@pytest.mark.parametrize("case", ["response_parsed", "completion_parsed"])
async def test_the_demo_model_fits_a_format(case: str, sdk: ClientProgram) -> None:
    assert set(await sdk.do(case, model="demo")) == {"total"}


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (400, "BadRequestError"),
        (404, "NotFoundError"),
        (429, "RateLimitError"),
        (503, "InternalServerError"),
    ],
)
async def test_an_error_has_the_class_of_its_status(
    status: int, name: str, sdk: ClientProgram, upstream: ScriptedUpstream
) -> None:
    upstream.script(error_reply(status, "No.", code="because"))
    got = await sdk.do("failure")
    assert (got["name"], got["request"]) == (name, True)
    assert "No." in got["message"]


async def test_a_stream_that_breaks_off_ends_in_a_failed_response(
    sdk: ClientProgram, upstream: ScriptedUpstream
) -> None:
    upstream.script(chat_sse([chat_chunk({"role": "assistant", "content": "Good"})], done=False))
    got = await sdk.do("failure_streamed")
    assert got["deltas"] == ["Good"]
    assert got["code"]


async def test_the_models_are_listed(clients: InstalledClients, gateway: Gateway) -> None:
    assert await clients.program("sdks/openai_sdk.py", BASE_URL=gateway.v1).do("models", model="demo") == [
        "demo",
        "demo",
    ]


async def test_a_conversation_continues_over_a_websocket(
    clients: InstalledClients, gateway: Gateway, answer: Answer, upstream: ScriptedUpstream
) -> None:
    answer(chat_text("Good day."), chat_text("Again."))
    assert await clients.program("sdks/openai_sdk.py", BASE_URL=gateway.v1).do("websocket") == ["Good day.", "Again."]
    messages = [(message["role"], message["content"]) for message in upstream.requests[1].json["messages"]]
    assert messages == [("user", "Hello"), ("assistant", "Good day."), ("user", "Again")]
