"""Thinking and answer in two passes of a real engine, streamed and not."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import islice
from typing import Any, NamedTuple

import httpx
import pytest
from openai import AsyncOpenAI, BadRequestError, OpenAI

from tests.integration.both_apis import Api, ChatApi, Reply, ResponsesApi, user
from tests.integration.engines import CONTEXT, Engine
from tests.polling import block_until
from tests.serving import command
from tests.unit.support.stream_checks.messages_order import check_message_stream

BUDGET = 200
WEATHER = {
    "name": "get_weather",
    "description": "Get the weather in a city",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
SEARCH = {
    "name": "search",
    "description": "Search the notes",
    "parameters": {
        "type": "object",
        "properties": {"query": {"type": "string"}},
        "required": ["query"],
        "additionalProperties": False,
    },
}
SUM: dict[str, Any] = {
    "type": "object",
    "properties": {name: {"type": "integer"} for name in ("a", "b", "sum")},
    "required": ["a", "b", "sum"],
    "additionalProperties": False,
}
WHOLE = CONTEXT * 9 // 10
"""Fewer steps than those of an answer that goes on to the end of the context."""

THINKS = {"provider": "engine", "model": "tiny", "tool_parser": "hermes", "two_pass": {"max_thinking_tokens": BUDGET}}
KINDS = pytest.mark.parametrize("kind", [ResponsesApi, ChatApi], ids=["responses", "chat"])


class Used(NamedTuple):
    """Usage, in a form that fits both APIs."""

    input: int
    output: int
    reasoning: int


def used(reply: Reply) -> Used:
    usage = reply.usage
    if hasattr(usage, "input_tokens"):
        return Used(usage.input_tokens, usage.output_tokens, usage.output_tokens_details.reasoning_tokens)
    return Used(usage.prompt_tokens, usage.completion_tokens, usage.completion_tokens_details.reasoning_tokens)


@pytest.fixture(scope="session")
def client(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    """The official SDK, pointed at a gateway that knows the engine as the models of this table."""
    models: dict[str, Any] = {
        "tiny": THINKS,
        "curt": {**THINKS, "two_pass": {"max_thinking_tokens": BUDGET, "max_response_tokens": 5}},
        "thoughtless": {**THINKS, "two_pass": {"max_thinking_tokens": 0}},
        "one block": {**THINKS, "single_tool_block": True},
        "efforts": {**THINKS, "two_pass": {"max_thinking_tokens": 64, "effort_budgets": {"low": 7}}},
        "other tag": {**THINKS, "two_pass": {"max_thinking_tokens": 20, "think_tag": "thinking", "bridge": ""}},
    }
    kind = "vllm" if engine.kind == "vllm" else "llama_server"
    if kind == "vllm":
        models["itself"] = {"provider": "engine", "model": "tiny", "two_pass": "engine"}
    config = {"providers": {"engine": {"type": kind, "base_url": f"{engine.url}/v1"}}, "models": models}
    with (
        command(config, tmp_path_factory.mktemp("gateway"), forked=True) as gateway,
        OpenAI(base_url=gateway.v1, api_key="none", max_retries=0, timeout=60) as client,
    ):
        yield client


def test_thinking_that_ends_by_itself_is_followed_by_the_answer(api: Api) -> None:
    reply = api.ask(user("What is 3 + 4?"))
    assert reply.reasoning == "The user asks for 3 + 4. That makes 7."
    assert reply.text == "The answer is 7."
    assert reply.ending == "done"
    assert 0 < used(reply).reasoning < used(reply).output


def test_a_budget_is_exact(api: Api) -> None:
    reply = api.ask(user("Think forever."), body={"reasoning": {"max_tokens": 50}})
    assert used(reply).reasoning == 50
    assert set(reply.reasoning.split()) <= {"hmm", "well"}
    assert reply.text == "I stopped thinking."
    assert reply.ending == "done"


def test_without_a_budget_in_the_request_the_models_budget_applies(api: Api) -> None:
    reply = api.ask(user("Think forever."))
    assert used(reply).reasoning == BUDGET
    assert reply.text == "I stopped thinking."


@pytest.mark.parametrize(("effort", "budget"), [("low", 7), ("medium", 32), ("high", 64), ("minimal", 4)])
def test_an_effort_is_a_budget(client: OpenAI, effort: str, budget: int) -> None:
    ask = ResponsesApi(client, streaming=False).ask
    reply = ask(user("Think forever."), model="efforts", body={"reasoning": {"effort": effort}})
    assert used(reply).reasoning == budget


def test_an_effort_in_chat_is_a_budget(client: OpenAI) -> None:
    completion = client.chat.completions.create(
        model="efforts",
        messages=[{"role": "user", "content": "Think forever."}],
        temperature=0,
        reasoning_effort="low",
    )
    assert completion.usage is not None
    assert completion.usage.completion_tokens_details is not None
    assert completion.usage.completion_tokens_details.reasoning_tokens == 7


def test_characters_that_span_tokens_arrive_whole(api: Api) -> None:
    reply = api.ask(user("Show me unicode."))
    assert reply.reasoning == "The user wants unicode. ✓"
    assert reply.text == "A rocket 🚀 and a café in 東京, done."


@pytest.mark.parametrize("budget", range(10, 15))
def test_a_budget_may_end_within_a_character(client: OpenAI, budget: int) -> None:
    ask = ResponsesApi(client, streaming=True).ask
    reply = ask(user("Show me unicode."), body={"reasoning": {"max_tokens": budget}})
    assert reply.reasoning.rstrip("✓ ") == "The user wants unicode."
    assert reply.text == "A rocket 🚀 and a café in 東京, done."
    assert used(reply).reasoning == budget


@pytest.mark.parametrize("off", [{"thinking": False}, {"body": {"reasoning": {"effort": "none"}}}])
def test_thinking_can_be_switched_off(api: Api, off: Any) -> None:
    reply = api.ask(user("What is the capital of France?"), **off)
    assert (reply.text, reply.reasoning) == ("The capital of France is Paris.", "")


def test_a_budget_of_zero_disables_thinking(api: Api) -> None:
    reply = api.ask(user("What is the capital of France?"), model="thoughtless")
    assert (reply.text, reply.reasoning) == ("The capital of France is Paris.", "")
    assert used(reply).reasoning == 0


def test_an_engine_with_budgets_enforces_the_budget_itself(client: OpenAI, engine: Engine) -> None:
    if engine.kind != "vllm":
        pytest.skip("llama.cpp keeps no budget in one run, and a configuration that asks for it is refused")
    ask = ResponsesApi(client, streaming=True).ask
    reply = ask(user("Think forever."), model="itself", body={"reasoning": {"max_tokens": 10}}, max_tokens=40)
    assert used(reply).reasoning == 10
    assert reply.reasoning


def test_another_tag_and_no_bridge_are_understood(api: Api) -> None:
    reply = api.ask(user("Think forever."), model="other tag")
    assert used(reply).reasoning <= 20
    assert "think" not in reply.text.replace("thinking", "")


def test_the_limit_of_the_request_is_for_thinking_and_answer_together(api: Api) -> None:
    reply = api.ask(user("Never stop."), max_tokens=40)
    assert used(reply).output == 40
    assert reply.ending == "length"
    assert reply.text.startswith("tick tock tick tock")


def test_thinking_leaves_some_of_the_limit_to_the_answer(api: Api) -> None:
    reply = api.ask(user("Think forever."), max_tokens=40)
    assert used(reply).reasoning == 30
    assert reply.text == "I stopped thinking."


def test_the_limit_of_the_model_is_for_the_answer_alone(api: Api) -> None:
    reply = api.ask(user("Never stop."), model="curt")
    assert used(reply).output == used(reply).reasoning + 5
    assert reply.ending == "length"


def test_the_prompt_is_counted_once(api: Api) -> None:
    cut = api.ask(user("Think forever."), body={"reasoning": {"max_tokens": 100}})
    assert used(cut).input < 20
    assert cut.usage.total_tokens == used(cut).input + used(cut).output


def test_a_tool_is_called_and_its_result_used(api: Api) -> None:
    question = user("What is the weather in Paris?")
    first = api.ask(question, tools=[SEARCH, WEATHER])
    (call,) = first.calls
    assert (call.name, call.arguments) == ("get_weather", {"city": "Paris"})
    assert (first.text, first.reasoning) == ("", "I need get_weather for Paris.")
    history = [*question, *first.spoken, *api.results({call.id: "sunny, 21 C"})]
    second = api.ask(history, tools=[SEARCH, WEATHER])
    assert second.text == "The weather in Paris: sunny, 21 C"
    assert second.calls == []


def test_a_tool_is_called_without_thinking(api: Api) -> None:
    reply = api.ask(user("What is the weather in Paris?"), tools=[WEATHER], thinking=False)
    assert [(call.name, call.arguments) for call in reply.calls] == [("get_weather", {"city": "Paris"})]
    assert (reply.text, reply.reasoning) == ("", "")


def test_calls_in_several_blocks_are_all_used(api: Api) -> None:
    reply = api.ask(user("What is the weather in Paris and Rome?"), tools=[WEATHER])
    assert [call.arguments for call in reply.calls] == [{"city": "Paris"}, {"city": "Rome"}]
    assert len({call.id for call in reply.calls}) == 2


@pytest.mark.parametrize("one", [{"model": "one block"}, {"body": {"parallel_tool_calls": False}}])
def test_an_answer_of_one_block_ends_with_it(api: Api, one: Any) -> None:
    reply = api.ask(user("What is the weather in Paris and Rome?"), tools=[WEATHER], **one)
    assert [call.arguments for call in reply.calls] == [{"city": "Paris"}]


def test_the_tool_that_is_forced_is_called_though_another_would_fit(api: Api) -> None:
    reply = api.ask(user("What is the weather in Paris?"), tools=[WEATHER, SEARCH], tool_choice=SEARCH["name"])
    (call,) = reply.calls
    assert call.name == SEARCH["name"]
    assert call.arguments.keys() == {"query"}
    assert reply.reasoning == "I need get_weather for Paris."


def test_some_tool_is_called_where_one_is_required(client: OpenAI) -> None:
    create: Any = client.responses.create
    response = create(
        model="tiny",
        input="Hi",
        temperature=0,
        tools=[{"type": "function", "strict": False, **tool} for tool in (WEATHER, SEARCH)],
        tool_choice="required",
    )
    (thought, call) = response.output
    assert (thought.type, call.type) == ("reasoning", "function_call")


def test_tools_that_may_not_be_called_are_not_in_the_prompt(client: OpenAI) -> None:
    create: Any = client.responses.create
    response = create(
        model="tiny",
        input="What is the weather in Paris?",
        temperature=0,
        tools=[{"type": "function", "strict": False, **WEATHER}],
        tool_choice="none",
    )
    assert response.output_text == "I have no tool for that."
    assert response.usage.input_tokens < 30


def test_the_answer_follows_its_schema_and_the_thought_does_not(api: Api) -> None:
    reply = api.ask(user("Give me JSON for 3 + 4."), schema=SUM)
    assert json.loads(reply.text) == {"a": 3, "b": 4, "sum": 7}
    assert reply.reasoning == "The user wants JSON for 3 + 4. That makes 7."


def test_a_schema_binds_an_answer_that_would_be_another(api: Api) -> None:
    schema = {**SUM, "properties": {**SUM["properties"], "sum": {"type": "integer", "enum": [9]}}}
    reply = api.ask(user("Give me JSON for 3 + 4."), schema=schema)
    assert json.loads(reply.text) == {"a": 3, "b": 4, "sum": 9}
    assert reply.reasoning == "The user wants JSON for 3 + 4. That makes 7."


def test_a_keyword_that_the_engine_does_not_know_is_named_or_costs_nothing_else(client: OpenAI, engine: Engine) -> None:
    colours = {"type": "array", "items": {"enum": ["red", "blue"]}, "minItems": 1, "maxItems": 1, "uniqueItems": True}
    if engine.kind == "vllm":
        with pytest.raises(BadRequestError, match="uniqueItems"):
            _answer_by_schema(client, colours)
    else:
        assert json.loads(_answer_by_schema(client, colours)) in (["red"], ["blue"])


def test_a_schema_that_the_engine_cannot_follow_is_not_left_out_silently(client: OpenAI, engine: Engine) -> None:
    message = "regex parse error" if engine.kind == "vllm" else "cannot constrain an answer to this schema"
    with pytest.raises(BadRequestError, match=message):
        _answer_by_schema(
            client, {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}, "required": ["a"]}
        )


def _answer_by_schema(client: OpenAI, schema: Mapping[str, Any]) -> str:
    create: Any = client.responses.create
    form = {"type": "json_schema", "name": "form", "schema": schema}
    response = create(model="tiny", input="Hi", temperature=0, text={"format": form})
    return str(response.output_text)


def test_probabilities_are_those_of_the_answer(client: OpenAI) -> None:
    completion = client.chat.completions.create(
        model="tiny",
        messages=[{"role": "user", "content": "What is 3 + 4?"}],
        temperature=0,
        logprobs=True,
        top_logprobs=2,
    )
    (choice,) = completion.choices
    assert choice.logprobs is not None
    assert choice.logprobs.content is not None
    assert "".join(token.token for token in choice.logprobs.content).startswith("The answer is 7.")
    assert all(len(token.top_logprobs) == 2 for token in choice.logprobs.content)


def test_a_stop_text_ends_the_answer_and_not_the_thought(client: OpenAI) -> None:
    completion = client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": "What is 3 + 4?"}], temperature=0, stop=["7"]
    )
    (choice,) = completion.choices
    assert choice.message.content == "The answer is "
    assert choice.finish_reason == "stop"
    assert choice.message.model_dump()["reasoning_content"] == "The user asks for 3 + 4. That makes 7."


def test_a_prompt_beyond_the_context_is_refused_by_name(api: Api) -> None:
    with pytest.raises(BadRequestError) as refused:
        api.ask(user("river " * (CONTEXT + 100)))
    assert refused.value.code == "context_length_exceeded"


def test_input_without_a_rendering_in_tokens_is_refused_by_name(client: OpenAI) -> None:
    create: Any = client.responses.create
    picture = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    with pytest.raises(BadRequestError) as refused:
        create(model="tiny", input=[{"role": "user", "content": [picture]}])
    assert refused.value.param == "input"


def test_both_passes_are_limited_to_the_free_context(api: Api) -> None:
    words = "river " * (CONTEXT - 120)
    reply = api.ask(user(f"{words}Never stop."))
    assert used(reply).input + used(reply).output <= CONTEXT
    assert used(reply).output < BUDGET


def test_the_second_pass_computes_nothing_again(client: OpenAI, engine: Engine) -> None:
    ask = ResponsesApi(client, streaming=False).ask
    ask(user("Hi"))
    before = engine.computed()
    reply = ask(user("Think in 9 steps about river."))
    assert used(reply).reasoning > 80
    assert engine.computed() - before <= used(reply).input + engine.block + 2


async def test_concurrent_turns_do_not_mix(client: OpenAI) -> None:
    async with AsyncOpenAI(base_url=client.base_url, api_key="none", max_retries=0, timeout=60) as at_once:

        async def ask(number: int) -> tuple[str, int]:
            response = await at_once.responses.create(model="tiny", input=f"Count to {number}.", temperature=0)
            assert response.usage is not None
            return response.output_text, response.usage.output_tokens_details.reasoning_tokens

        answers = await asyncio.gather(*map(ask, range(2, 18)))
    assert [text for text, _ in answers] == [", ".join(map(str, range(1, end + 1))) + "." for end in range(2, 18)]
    assert {tokens for _, tokens in answers} <= set(range(5, 9))


@KINDS
@pytest.mark.parametrize(
    ("question", "budget"), [("Think forever.", 4000), ("Never stop.", 50)], ids=["thinking", "answering"]
)
def test_a_client_that_leaves_frees_the_engine(
    kind: Any, question: str, budget: int, client: OpenAI, engine: Engine
) -> None:
    api = kind(client, streaming=True)
    before = engine.load().steps
    with closing(api.start(user(question), body={"reasoning": {"max_tokens": budget}})) as stream:
        assert len(list(islice(stream, 40))) == 40
    block_until(lambda: not engine.load().running, "the engine is still at work")
    assert engine.load().steps - before < WHOLE, "the engine went on to the end"
    assert api.ask(user("Hi")).text == "Hello! How can I help you today?"


def test_a_budget_is_exact_for_clients_of_messages(client: OpenAI) -> None:
    asked = {"model": "tiny", "max_tokens": 1500, "temperature": 0, "messages": user("Think forever.")}
    enabled = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    with httpx.Client(base_url=str(client.base_url), timeout=60) as messages:
        whole = messages.post("messages", json=asked | enabled).json()
        streamed = check_message_stream(messages.post("messages", json=asked | enabled | {"stream": True}).content)
        disabled = messages.post("messages", json=asked | {"thinking": {"type": "disabled"}}).json()
    for message in (whole, streamed):
        assert [block["type"] for block in message["content"]] == ["thinking", "text"]
        assert message["usage"]["output_tokens_details"]["thinking_tokens"] == 1024
    assert [block["type"] for block in disabled["content"]] == ["text"]
