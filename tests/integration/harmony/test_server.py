"""Harmony on a real llama.cpp: its model has the vocabulary of gpt-oss, and generates random tokens.

So the server knows the control tokens as it does those of gpt-oss, ends where gpt-oss ends, and holds a grammar to
them.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from openai import OpenAI

from tests.integration.both_apis import ChatApi, Json, user
from tests.integration.engines import llama
from tests.integration.harmony.gpt_oss import write_model
from tests.serving import serving
from tests.unit.support.harmony import real

pytestmark = pytest.mark.timeout(180)  # every token is looked for among two hundred thousand

WORDS = ["analysis", "commentary", "final", "json", " to", "=", "functions", ".", " It", " is", " sunny"]
CHARACTERS = [" 🚀", " 東京", " Zürich"]
"""Texts of several tokens, or of one token with characters of several bytes."""

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"enum": ["Zürich 🚀", "東京 🚀"]}, "days": {"enum": [1, 2]}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
TOOL = {"name": "weather", "parameters": SCHEMA}
OTHER = {"name": "final", "parameters": {"type": "object", "properties": {}}}
BROKEN = re.compile(r" ?\ufffd+")
"""Matches the remains of unfinished characters."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    folder, marks = tmp_path_factory.mktemp("harmony"), real().control_tokens
    likely = {token: 1.0 for word in WORDS for token in real().encode(word)}
    likely |= {token: 2.5 for word in CHARACTERS for token in real().encode(word)}
    likely |= {marks.channel: 2.0, marks.message: 3.5, marks.end: 3.0, marks.start: 1.0, marks.returns: 0.0}
    write_model(folder / "model.gguf", likely)
    with llama(folder / "server.log", folder / "model.gguf") as engine:
        providers = {"up": {"type": "harmony", "base_url": f"{engine.url}/v1"}}
        with (
            serving({"providers": providers, "models": {"*": {"provider": "up"}}}) as gateway,
            OpenAI(base_url=gateway.v1, api_key="none", max_retries=0, timeout=60) as client,
        ):
            yield client


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def api(request: pytest.FixtureRequest, client: OpenAI) -> ChatApi:
    return ChatApi(client, streaming=request.param)


def drawn(seed: int) -> Json:
    return {"seed": seed, "temperature": 1}


def texts_of(client: OpenAI, seed: int, *, stream: bool) -> tuple[str, str, str | None]:
    """Returns answer, thought and status, without remains of unfinished characters."""
    texts, ending = {"content": "", "reasoning_content": ""}, None
    body: Any = {"model": "gpt-oss", "messages": user("Hi"), "max_tokens": 100, "stream": stream, **drawn(seed)}
    answer: Any = client.chat.completions.create(**body)
    for chunk in answer if stream else [answer]:
        for choice in chunk.choices:
            said = (choice.delta if stream else choice.message).model_dump()
            assert "<|" not in str(said)
            ending = choice.finish_reason or ending
            for name in texts:
                texts[name] += said.get(name) or ""
    return BROKEN.sub("", texts["content"]), BROKEN.sub("", texts["reasoning_content"]), ending


def test_a_call_that_must_be_is_one_that_is_declared_and_fits_its_schema(api: ChatApi) -> None:
    reply = api.ask(user("Hi"), tools=[OTHER, TOOL], tool_choice="weather", max_tokens=300, body=drawn(1))
    assert reply.text == ""
    [call] = reply.calls
    assert call.name == "weather"
    assert jsonschema_rs.is_valid(SCHEMA, call.arguments)


def test_an_answer_is_held_to_its_schema(api: ChatApi) -> None:
    reply = api.ask(user("Hi"), schema=SCHEMA, thinking=False, max_tokens=300, body=drawn(1))
    assert jsonschema_rs.is_valid(SCHEMA, json.loads(reply.text))


def test_no_output_has_control_tokens_and_streams_equal_json_replies(client: OpenAI) -> None:
    heard = ""
    for seed in range(10):
        whole = texts_of(client, seed, stream=False)
        assert texts_of(client, seed, stream=True) == whole, seed
        heard += whole[0] + whole[1]
    assert heard


def test_a_tool_loop_completes(client: OpenAI) -> None:
    api = ChatApi(client, streaming=True)
    first = api.ask(user("Hi"), tools=[TOOL], tool_choice="weather", max_tokens=300, body=drawn(2))
    history = [*user("Hi"), *first.spoken, *api.results({first.calls[0].id: "sunny"})]
    second = api.ask(history, schema=SCHEMA, thinking=False, max_tokens=300, body=drawn(2))
    assert jsonschema_rs.is_valid(SCHEMA, json.loads(second.text))


def test_an_answer_ends_at_its_limit(api: ChatApi) -> None:
    reply = api.ask(user("Hi"), tools=[TOOL], tool_choice="weather", max_tokens=3, body=drawn(1))
    assert reply.ending == "length"
    assert reply.usage.completion_tokens == 3


def test_the_token_count_of_an_input_is_exact(client: OpenAI) -> None:
    body: dict[str, Any] = {"model": "gpt-oss", "input": "Hi"}
    counted = client.responses.input_tokens.count(**body)
    answered = client.responses.create(**body, max_output_tokens=16)
    assert answered.usage is not None
    assert counted.input_tokens == answered.usage.input_tokens
