"""Thinking and answer in two passes of the embedded engine: exact budgets, and what is used of each pass."""

import json
from typing import Any

import pytest
from openai import BadRequestError, OpenAI

from tests.integration.both_apis import Api, ChatApi, ResponsesApi, user
from tests.integration.engines import CONTEXT
from tests.integration.real_engines.test_engines import SUM, WEATHER

STEPS = "Think in 9 steps about river."
BRIDGE = "Now I answer."


def ask(client: OpenAI, text: str, model: str = "two", **options: Any) -> Any:
    return client.responses.create(model=model, input=text, temperature=0, **options)


def thought(response: Any) -> str:
    return "".join(part.text for item in response.output if item.type == "reasoning" for part in item.content)


def spent(response: Any) -> int:
    found: int = response.usage.output_tokens_details.reasoning_tokens
    return found


def test_thinking_that_ends_by_itself_is_followed_by_the_answer(api: Api) -> None:
    reply = api.ask(user("What is the capital of France?"), model="two")
    assert reply.text == "The capital of France is Paris."
    assert reply.reasoning == "The user asks for the capital of France. It is Paris."
    assert reply.ending == "done"


@pytest.mark.parametrize("budget", [1, 2, 7, 20])
def test_a_budget_is_spent_to_the_last_token_and_not_beyond(client: OpenAI, budget: int) -> None:
    response = ask(client, STEPS, reasoning={"max_tokens": budget})
    assert spent(response) == budget
    assert response.status == "completed"
    assert "to go" not in response.output_text, "a thought that leaked into the answer"
    assert BRIDGE not in thought(response) + response.output_text, "what is written for the model is not the model's"


def test_a_thought_shorter_than_its_budget_spends_no_more_than_it_took(client: OpenAI) -> None:
    response = ask(client, "What is 3 + 4?", reasoning={"max_tokens": 60})
    assert (thought(response), response.output_text) == ("The user asks for 3 + 4. That makes 7.", "The answer is 7.")
    assert 0 < spent(response) < 25


def test_a_budget_of_zero_disables_thinking(client: OpenAI) -> None:
    response = ask(client, "What is 3 + 4?", reasoning={"effort": "minimal"})
    assert (thought(response), spent(response)) == ("", 0)
    assert response.output_text


def test_an_effort_stands_for_its_budget(client: OpenAI) -> None:
    assert spent(ask(client, STEPS, reasoning={"effort": "low"})) == 5
    assert spent(ask(client, STEPS, reasoning={"effort": "medium"})) == 32, "half of the model's own budget"
    completion: Any = client.chat.completions.create(
        model="two", messages=[{"role": "user", "content": STEPS}], reasoning_effort="low", temperature=0
    )
    assert completion.usage.completion_tokens_details.reasoning_tokens == 5


def test_the_models_own_budget_holds_where_a_request_sets_none(client: OpenAI) -> None:
    assert spent(ask(client, "Think forever.")) == 64


def test_usage_counts_the_prompt_once_and_all_generated_tokens(client: OpenAI) -> None:
    alone, cut = (
        ask(client, STEPS, reasoning={"max_tokens": 3}),
        ask(client, STEPS, reasoning={"max_tokens": 30}),
    )
    assert alone.usage.input_tokens == cut.usage.input_tokens
    assert cut.usage.output_tokens > spent(cut) == 30
    assert cut.usage.total_tokens == cut.usage.input_tokens + cut.usage.output_tokens


@pytest.mark.parametrize("off", [{"extra_body": {"thinking": False}}, {"reasoning": {"effort": "none"}}])
def test_with_thinking_off_there_is_one_pass_without_a_thought(client: OpenAI, off: Any) -> None:
    response = ask(client, "What is the capital of France?", **off)
    assert (response.output_text, thought(response)) == ("The capital of France is Paris.", "")
    assert not spent(response)


def test_a_limit_bounds_thought_and_answer_together(client: OpenAI) -> None:
    response = ask(client, "Never stop.", max_output_tokens=40)
    assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert response.usage.output_tokens == 40


def test_the_operators_limit_bounds_the_answer_alone(client: OpenAI) -> None:
    response = ask(client, "Never stop.", model="short")
    assert response.status == "incomplete"
    assert response.usage.output_tokens - spent(response) == 6


def test_a_tool_is_called_after_the_thought(api: Api) -> None:
    reply = api.ask(user("What is the weather in Paris?"), model="two", tools=[WEATHER])
    assert [(call.name, call.arguments) for call in reply.calls] == [("get_weather", {"city": "Paris"})]
    assert (reply.text, reply.reasoning) == ("", "I need get_weather for Paris.")


def test_a_forced_tool_is_called_whatever_the_thinking(api: Api) -> None:
    reply = api.ask(user("Hi"), model="two", tools=[WEATHER], tool_choice="get_weather")
    assert [call.name for call in reply.calls] == ["get_weather"]
    assert isinstance(reply.calls[0].arguments["city"], str)


def test_calls_in_several_blocks_are_all_used_unless_one_is_requested(client: OpenAI) -> None:
    tools: Any = [{"type": "function", "strict": False, **WEATHER}]
    question = "What is the weather in Paris and Rome?"

    def cities(**options: Any) -> list[str]:
        found = ask(client, question, tools=tools, **options).output
        return [json.loads(item.arguments)["city"] for item in found if item.type == "function_call"]

    assert cities() == ["Paris", "Rome"]
    assert cities(parallel_tool_calls=False) == ["Paris"]
    assert cities(model="one block") == ["Paris"]


def test_an_empty_list_of_tools_means_no_tools(client: OpenAI) -> None:
    assert ask(client, "What is 3 + 4?", tools=[]).output_text == "The answer is 7."


def test_an_answer_follows_its_schema_after_unconstrained_thinking(api: Api) -> None:
    reply = api.ask(user("Give me JSON for 3 + 4."), model="two", schema=SUM)
    assert json.loads(reply.text) == {"a": 3, "b": 4, "sum": 7}
    assert reply.reasoning == "The user wants JSON for 3 + 4. That makes 7."


def test_a_prompt_beyond_the_context_is_refused_by_name(client: OpenAI) -> None:
    with pytest.raises(BadRequestError) as refused:
        ask(client, "river " * (CONTEXT + 100))
    assert refused.value.code == "context_length_exceeded"


def test_a_prompt_that_all_but_fills_the_context_still_has_an_answer(client: OpenAI) -> None:
    counted = client.responses.input_tokens.count(model="two", input="river " * 100).input_tokens
    twice = client.responses.input_tokens.count(model="two", input="river " * 200).input_tokens
    words = int((CONTEXT - 40 - counted) / (twice - counted) * 100) + 100
    response = ask(client, "river " * words)
    assert response.usage.total_tokens <= CONTEXT
    assert response.usage.output_tokens > spent(response)


def test_the_engine_may_keep_the_budget_in_one_run(client: OpenAI) -> None:
    response = ask(client, STEPS, model="within", reasoning={"max_tokens": 12})
    assert 12 <= spent(response) <= 14, "vLLM leaves both tags out of its budget"
    assert response.output_text


@pytest.mark.parametrize("kind", [ResponsesApi, ChatApi], ids=["responses", "chat"])
def test_a_conversation_continues_with_earlier_thinking(kind: Any, client: OpenAI) -> None:
    api = kind(client, streaming=True)
    question = user("What is the weather in Paris?")
    first = api.ask(question, model="two", tools=[WEATHER])
    history = [*question, *first.spoken, *api.results({first.calls[0].id: "sunny, 21 C"})]
    assert api.ask(history, model="two", tools=[WEATHER]).text == "The weather in Paris: sunny, 21 C"
