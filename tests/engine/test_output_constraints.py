"""Parameters that shape answers of the embedded engine: constraints, sampling, stop strings, log probabilities."""

import json
import re
from typing import Any

import pytest
from openai import BadRequestError, OpenAI

from tests.integration.engines import ROOT
from tests.integration.real_engines.test_engines import WEATHER

QUESTION = "What is 3 + 4?"


def ask(client: OpenAI, question: str = QUESTION, model: str = "two", **options: Any) -> Any:
    return client.responses.create(model=model, input=question, **{"temperature": 0, **options})


def chat(client: OpenAI, model: str = "tiny", **options: Any) -> Any:
    messages: Any = [{"role": "user", "content": QUESTION}]
    return client.chat.completions.create(model=model, messages=messages, **{"temperature": 0, **options})


@pytest.mark.parametrize(
    ("guide", "form"),
    [
        ({"structured_outputs": {"regex": "[a-c]{3}"}}, "[a-c]{3}"),
        ({"structured_outputs": {"choice": ["yes", "no"]}}, "yes|no"),
        ({"structured_outputs": {"grammar": 'root ::= "left" | "right"'}}, "left|right"),
        ({"guided_regex": "[0-9]{2}"}, "[0-9]{2}"),
    ],
)
def test_an_answer_has_the_requested_form_after_unconstrained_thinking(client: OpenAI, guide: Any, form: str) -> None:
    response = ask(client, extra_body=guide)
    assert re.fullmatch(form, response.output_text)
    assert response.output[0].content[0].text == "The user asks for 3 + 4. That makes 7."


def test_any_json_object_may_be_requested(client: OpenAI) -> None:
    response = ask(client, "Give me JSON for 3 + 4.", text={"format": {"type": "json_object"}})
    assert json.loads(response.output_text) == {"a": 3, "b": 4, "sum": 7}


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ({"text": {"format": {"type": "json_schema", "name": "x", "schema": {"type": "nonsense"}}}}, "nonsense"),
        ({"extra_body": {"structured_outputs": {"regex": "(("}}}, "regex"),
        ({"extra_body": {"bad_words": [""]}}, "bad_words"),
        ({"extra_body": {"top_k": -7}}, "top_k"),
    ],
)
def test_refusals_of_the_engine_are_client_errors(client: OpenAI, option: Any, text: str) -> None:
    with pytest.raises(BadRequestError) as refused:
        ask(client, model="tiny", **option)
    assert re.search(text, refused.value.message), refused.value.message


def test_a_stop_string_ends_the_answer_before_it(client: OpenAI) -> None:
    completion = chat(client, stop=["is 7"])
    assert completion.choices[0].message.content == "The answer "
    assert completion.choices[0].finish_reason == "stop"


def test_equal_seeds_draw_equal_answers(client: OpenAI) -> None:
    drawn = {chat(client, temperature=1.8, seed=7).choices[0].message.content for _ in range(3)}
    assert len(drawn) == 1


def test_probabilities_add_up_to_their_text(client: OpenAI) -> None:
    (choice,) = chat(client, logprobs=True, top_logprobs=3, extra_body={"thinking": False}).choices
    tokens = choice.logprobs.content
    assert "".join(token.token for token in tokens) == choice.message.content
    assert b"".join(bytes(token.bytes) for token in tokens).decode() == choice.message.content
    assert all(token.logprob <= 0 and len(token.top_logprobs) == 3 for token in tokens)
    first = tokens[0]
    assert first.top_logprobs[0].token == first.token, "at temperature 0 the likeliest is chosen"


def test_probabilities_are_in_both_apis(client: OpenAI) -> None:
    response = ask(client, model="tiny", include=["message.output_text.logprobs"], top_logprobs=2)
    (part,) = response.output[-1].content
    assert "".join(token.token for token in part.logprobs) == part.text == "The answer is 7."


@pytest.mark.parametrize("model", ["tiny", "two"])
def test_probabilities_are_complete_when_a_stop_string_holds_text_back(client: OpenAI, model: str) -> None:
    (choice,) = chat(client, model, logprobs=True, top_logprobs=0, stop=["a text that does not come"]).choices
    assert "".join(token.token for token in choice.logprobs.content) == choice.message.content == "The answer is 7."


def test_a_token_can_be_made_unlikely(client: OpenAI) -> None:
    token = json.loads((ROOT / "models/tiny-reasoner/vocab.json").read_text())["\u0120tock"]
    completion = client.chat.completions.create(
        model="tiny",
        messages=[{"role": "user", "content": "Never stop."}],
        temperature=0,
        max_completion_tokens=60,
        logit_bias={str(token): -100},
    )
    assert "tock" not in (completion.choices[0].message.content or "")
    assert "tock" in (ask(client, "Never stop.", "tiny", max_output_tokens=60).output_text)


def test_tokens_can_be_made_certain_and_lengths_a_least(client: OpenAI) -> None:
    options = {"thinking": False, "allowed_token_ids": [18, 19], "min_tokens": 5}
    response = ask(client, model="tiny", max_output_tokens=20, extra_body=options)
    assert response.usage.output_tokens >= 5
    assert set(response.output_text) <= {"3", "4"}


def test_parameters_unknown_to_the_engine_are_reported(client: OpenAI) -> None:
    raw = client.responses.with_raw_response.create(
        model="tiny", input=QUESTION, extra_body={"use_beam_search": True, "length_penalty": 1.0}
    )
    assert {"use_beam_search", "length_penalty"} <= set(re.findall(r"[a-z_]+", raw.headers["x-gateway-loss"]))


def test_calls_are_parsed_by_the_named_parser_of_vllm(client: OpenAI) -> None:
    response = ask(
        client, "What is the weather in Paris?", "qwen", tools=[{"type": "function", "strict": False, **WEATHER}]
    )
    (call,) = [item for item in response.output if item.type == "function_call"]
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Paris"})


def test_a_parser_that_does_not_fit_the_model_is_reported(client: OpenAI) -> None:
    tool: Any = {"type": "function", "name": "f", "strict": False, "parameters": {"type": "object", "properties": {}}}
    with pytest.raises(Exception, match="vllm:llama3_json"):
        client.responses.create(model="llama", input="Hi", tools=[tool])


def test_a_text_model_refuses_images(client: OpenAI) -> None:
    part = {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "auto"}
    question: Any = [{"role": "user", "content": [part]}]
    with pytest.raises(BadRequestError):
        client.responses.create(model="tiny", input=question)
