"""Google's SDK for Python over Gemini's API: before a strict chat upstream, and before one with the Responses API."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.clients.client_processes import InstalledClients
from tests.clients.conftest import Answer, serving_over
from tests.serving import Gateway
from tests.upstream import ScriptedUpstream, chat_calls, chat_chunk, chat_sse, chat_text, error_reply
from tests.upstream.builders import CHAT_USAGE, SSE, data_frame, json_reply, text_chunks
from tests.upstream.script import Pause, Reply

Do = Callable[..., Awaitable[Any]]

ADDS = chat_calls(("add", '{"a":2,"b":40}'))


@pytest.fixture
def do(clients: InstalledClients, front: Gateway) -> Do:
    async def run(case: str, model: str = "some-model") -> Any:
        return await clients.run_program("sdks/google_genai.py", case, BASE_URL=front.url, MODEL=model)

    return run


async def test_text_is_whole(do: Do, answer: Answer) -> None:
    answer(chat_text("Good ", "day."))
    assert await do("text") == {"text": "Good day.", "usage": [9, 3], "model": "some-model"}


async def test_text_streams(do: Do, answer: Answer) -> None:
    answer(chat_text("Good ", "day."))
    assert await do("text_streamed") == {"deltas": ["Good ", "day."], "finish": "FinishReason.STOP"}
    answer(chat_text("Good ", "day."))
    assert await do("text_streamed_async") == {"deltas": ["Good ", "day."]}


async def test_a_silence_breaks_no_stream(clients: InstalledClients, upstream: ScriptedUpstream) -> None:
    silence = asyncio.Event()
    chunks = [*map(data_frame, text_chunks("Good ", "day."))]
    upstream.on(
        "/chat/completions", Reply(headers=SSE, body=(chunks[0], Pause(silence), *chunks[1:], b"data: [DONE]\n\n"))
    )
    with serving_over("chat", upstream.url, server={"keepalive_s": 0.05}) as gateway:
        asyncio.get_running_loop().call_later(1, silence.set)
        got = await clients.run_program(
            "sdks/google_genai.py", "text_streamed", BASE_URL=gateway.url, MODEL="some-model"
        )
    assert got["deltas"] == ["Good ", "day."]


async def test_functions_of_python_run_by_themselves(do: Do, answer: Answer, upstream: ScriptedUpstream) -> None:
    answer(ADDS, chat_text("It is 42."))
    assert await do("tools") == {"text": "It is 42."}
    called, result = upstream.requests[1].json["messages"][-2:]
    assert called["tool_calls"][0]["id"] == result["tool_call_id"]
    assert result["content"] == "42"


async def test_a_chat_carries_its_thoughts_back(do: Do, answer: Answer, upstream: ScriptedUpstream) -> None:
    chunks = [
        chat_chunk({"role": "assistant", "reasoning_content": "A sum."}),
        chat_chunk({"content": "It is 42."}),
        chat_chunk({}, "stop"),
        chat_chunk(usage=CHAT_USAGE),
    ]
    answer(chat_sse(chunks), chat_text("Yes."))
    got = await do("chat")
    assert (got["thoughts"], got["text"]) == (["A sum."], "Yes.")
    assert got["contents"] >= 4
    past = [message for message in upstream.requests[-1].json["messages"] if message["role"] == "assistant"]
    assert [(message["content"], message["reasoning_content"]) for message in past] == [("It is 42.", "A sum.")]


async def test_an_answer_fits_its_schema(do: Do, answer: Answer, upstream: ScriptedUpstream) -> None:
    answer(chat_text('{"total":42}'))
    assert await do("parsed") == {"total": 42}
    schema = upstream.requests[0].json["response_format"]["json_schema"]
    assert schema["strict"] is True
    assert schema["schema"]["properties"] == {"total": {"title": "Total", "type": "integer"}}


async def test_an_answer_may_be_a_list_or_one_of_several_values(do: Do, answer: Answer) -> None:
    answer(chat_text('{"value":[{"total":42}]}'), chat_text('{"value":"down"}'))
    assert await do("values") == {"totals": [42], "direction": "DOWN"}


async def test_images_are_sent_in_the_alphabet_that_upstreams_read(
    do: Do, answer: Answer, upstream: ScriptedUpstream
) -> None:
    answer(chat_text("A pixel."))
    assert await do("image") == {"text": "A pixel."}
    image, _ = upstream.requests[0].json["messages"][0]["content"]
    assert image["image_url"]["url"] == "data:image/png;base64,+//+"


async def test_failures_are_errors_of_the_sdk(do: Do, answer: Answer) -> None:
    answer(error_reply(429, "slow down"))
    assert await do("refused") == {"code": 429, "status": "RESOURCE_EXHAUSTED"}


async def test_a_stream_that_breaks_off_raises(clients: InstalledClients, gateway: Gateway, answer: Answer) -> None:
    answer(chat_sse([text_chunks("Hi")[0], chat_chunk({"content": "Good "})], done=False))
    got = await clients.run_program("sdks/google_genai.py", "broken_off", BASE_URL=gateway.url, MODEL="some-model")
    assert got == {"deltas": ["Good "], "code": 502, "status": "INTERNAL"}


async def test_models_and_tokens(do: Do) -> None:
    got = await do("models", "demo")
    assert got["one"] == "models/demo"
    assert "models/demo" in got["names"]
    assert (await do("counted", "demo"))["tokens"] > 0
    assert await do("counted") == {"code": 404}


async def test_texts_are_embedded(clients: InstalledClients, gateway: Gateway, upstream: ScriptedUpstream) -> None:
    vectors = [{"index": 0, "embedding": [0.5, 1.0]}, {"index": 1, "embedding": [0.25, 2.0]}]
    replies = [{"data": data, "usage": {"prompt_tokens": 5}} for data in (vectors[:1], vectors, vectors[:1])]
    upstream.on("/embeddings", *map(json_reply, replies))
    got = await clients.run_program("sdks/google_genai.py", "embedded", BASE_URL=gateway.url, MODEL="some-model")
    one, two = [0.5, 1.0], [0.25, 2.0]
    assert got == {"vectors": [[one], [one, two], [one]], "tokens": 5, "losses": "taskType=dropped, title=dropped"}
    sent = [request.json for request in upstream.requests]
    assert [(body["input"], body.get("dimensions")) for body in sent] == [
        (["one"], None),
        (["one", "two"], 2),
        (["three"], None),
    ]


async def test_a_real_model_calls_a_function_of_python(clients: InstalledClients, engine_gateway: Gateway) -> None:
    prompt = "Use add for 2 and 40."
    got = await clients.run_program(
        "sdks/google_genai.py", "tools", BASE_URL=engine_gateway.url, MODEL="tiny", PROMPT=prompt
    )
    assert got == {"text": "The answer is 42."}
