"""The documented behaviour on real engines: both APIs, streamed and not."""

import json
from contextlib import closing
from itertools import islice
from typing import Any

import pytest
from openai import BadRequestError, NotFoundError, OpenAI

from tests.integration.both_apis import Api, ChatApi, ResponsesApi, user
from tests.integration.engines import CONTEXT, Engine
from tests.polling import block_until

WEATHER = {
    "name": "get_weather",
    "description": "Get the weather in a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
SEARCH = {
    "name": "search",
    "description": "Search the notes",
    "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
}
SUM = {
    "type": "object",
    "properties": {name: {"type": "integer"} for name in ("a", "b", "sum")},
    "required": ["a", "b", "sum"],
    "additionalProperties": False,
}
WHOLE = CONTEXT * 9 // 10
"""Fewer steps than those of an answer that goes on to the end of the context."""


def test_a_question_gets_its_answer_and_the_thought_before_it(api: Api) -> None:
    reply = api.ask(user("What is the capital of France?"))
    assert reply.text == "The capital of France is Paris."
    assert reply.reasoning == "The user asks for the capital of France. It is Paris."
    assert reply.ending == "done"


def test_characters_that_span_tokens_arrive_whole(api: Api) -> None:
    assert api.ask(user("Show me unicode.")).text == "A rocket 🚀 and a café in 東京, done."


def test_line_breaks_and_indents_arrive_as_written(api: Api) -> None:
    reply = api.ask(user("Write hello world in Python."))
    assert reply.text == '```python\ndef main():\n    print("Hello, world!")\n\n\nmain()\n```'


def test_thinking_can_be_switched_off(api: Api) -> None:
    reply = api.ask(user("What is the capital of France?"), thinking=False)
    assert (reply.text, reply.reasoning) == ("The capital of France is Paris.", "")


def test_a_conversation_contains_its_history(api: Api) -> None:
    said = user("My name is Ada.")
    first = api.ask(said)
    assert first.text == "Nice to meet you, Ada."
    assert api.ask([*said, *first.spoken, *user("What is my name?")]).text == "Your name is Ada."


def test_a_tool_is_called_and_its_result_used(api: Api) -> None:
    question = user("What is the weather in Paris?")
    first = api.ask(question, tools=[SEARCH, WEATHER])
    (call,) = first.calls
    assert (call.name, call.arguments) == ("get_weather", {"city": "Paris"})
    assert first.text == ""
    assert first.reasoning == "I need get_weather for Paris."
    history = [*question, *first.spoken, *api.results({call.id: "sunny, 21 C"})]
    second = api.ask(history, tools=[SEARCH, WEATHER])
    assert second.text == "The weather in Paris: sunny, 21 C"
    assert second.calls == []


def test_the_tool_that_is_forced_is_called_though_another_would_fit(api: Api) -> None:
    reply = api.ask(user("What is the weather in Paris?"), tools=[WEATHER, SEARCH], tool_choice=SEARCH["name"])
    assert {call.name for call in reply.calls} == {SEARCH["name"]}


def test_two_tools_called_at_once_keep_their_results_apart(api: Api) -> None:
    question = user("What is the weather in Paris and Rome?")
    first = api.ask(question, tools=[WEATHER])
    assert [call.arguments for call in first.calls] == [{"city": "Paris"}, {"city": "Rome"}]
    paris, rome = first.calls
    assert paris.id != rome.id
    results = api.results({paris.id: "sunny, 21 C", rome.id: "rainy, 9 C"})
    second = api.ask([*question, *first.spoken, *results], tools=[WEATHER])
    assert second.text == "The weather in Paris: sunny, 21 C. The weather in Rome: rainy, 9 C"


def test_an_answer_follows_its_schema(api: Api) -> None:
    reply = api.ask(user("Give me JSON for 3 + 4."), schema=SUM)
    assert json.loads(reply.text) == {"a": 3, "b": 4, "sum": 7}


def test_a_schema_binds_an_answer_that_would_be_another(api: Api) -> None:
    schema = {**SUM, "properties": {name: {"type": "integer", "enum": [5]} for name in ("a", "b", "sum")}}
    assert json.loads(api.ask(user("Hi"), schema=schema).text) == {"a": 5, "b": 5, "sum": 5}


def test_an_answer_cut_at_the_token_limit_is_incomplete(api: Api) -> None:
    reply = api.ask(user("Never stop."), max_tokens=40)
    assert reply.ending == "length"
    assert reply.text.startswith("tick tock tick tock")


def test_usage_counts_input_and_output_tokens(api: Api) -> None:
    usage = api.ask(user("Never stop."), max_tokens=40).usage
    prompt, completion = (
        (usage.input_tokens, usage.output_tokens)
        if hasattr(usage, "input_tokens")
        else (usage.prompt_tokens, usage.completion_tokens)
    )
    assert completion == 40
    assert 5 < prompt < 40
    assert usage.total_tokens == prompt + completion


def test_a_prompt_beyond_the_context_is_refused_by_name(api: Api) -> None:
    with pytest.raises(BadRequestError) as refused:
        api.ask(user("river " * (CONTEXT + 100)))
    assert refused.value.code == "context_length_exceeded"


def test_an_unknown_model_is_not_found(api: Api) -> None:
    with pytest.raises(NotFoundError) as refused:
        api.ask(user("Hi"), model="huge")
    assert refused.value.code == "model_not_found"


@pytest.mark.parametrize("kind", [ResponsesApi, ChatApi], ids=["responses", "chat"])
def test_a_client_that_leaves_frees_the_engine(kind: Any, client: OpenAI, engine: Engine) -> None:
    api = kind(client, streaming=True)
    before = engine.load().steps
    with closing(api.start(user("Never stop."))) as stream:
        assert len(list(islice(stream, 5))) == 5
    block_until(lambda: not engine.load().running, "the engine is still at work")
    assert engine.load().steps - before < WHOLE, "the engine went on to the end"
    assert api.ask(user("Hi")).text == "Hello! How can I help you today?"
