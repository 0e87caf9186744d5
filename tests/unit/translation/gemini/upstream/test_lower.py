"""translation/gemini/upstream/lower.py"""

from typing import Any

import pytest

from tests.unit.support.items import message
from tests.unit.translation.gemini.items import model, user
from translation.errors import InvalidRequest, Unrepresentable
from translation.gemini.upstream.lower import build_count_request, lower, parse_model_names, path_of
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import DEFAULT_PROFILE, Profile
from translation.representation.turn import Turn

OLD, NEW = "gemini-2.0-flash", "gemini-3-pro-preview"
HI = message("user", "Hi")
TOOL = {"type": "function", "name": "f"}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "pattern": "x"}}}
FORMAT = {"type": "json_schema", "name": "n", "schema": SCHEMA}
JSON_CONFIG = {
    "responseMimeType": "application/json",
    "responseJsonSchema": {"type": "object", "properties": {"a": {"type": "string"}}},
}


def lowered(model: str = OLD, profile: Profile = DEFAULT_PROFILE, **turn: Any) -> tuple[Json, list[str]]:
    body, losses = lower(Turn(model=model, items=[HI], **turn), profile)
    return body, list(map(str, losses))


def test_a_plain_turn_is_a_minimal_request() -> None:
    assert lowered() == ({"contents": [user("Hi")]}, [])


def test_instructions_precede_system_messages() -> None:
    turn = Turn(model=OLD, items=[message("system", "b"), HI], instructions="a")
    assert lower(turn, DEFAULT_PROFILE).body["systemInstruction"] == {"parts": [{"text": "a\n\nb"}]}


def test_a_conversation_begun_by_the_model_gets_a_user_message_first() -> None:
    turn = Turn(model=OLD, items=[message("assistant", "Hello."), HI])
    body, losses = lower(turn, DEFAULT_PROFILE)
    opening = user("(The conversation begins with the assistant's words.)")
    assert body["contents"] == [opening, model("Hello."), user("Hi")]
    assert losses == (Loss("input", "begun with a user message"),)


@pytest.mark.parametrize("model_name", ["gemini-2.5-flash", NEW, "gemini-2.5-flash-image"])
def test_penalties_are_dropped_where_the_api_refuses_them(model_name: str) -> None:
    body, losses = lowered(model_name, sampling={"presence_penalty": 0.4, "frequency_penalty": 0.0})
    config = body["generationConfig"]
    assert (config.get("presencePenalty"), config["frequencyPenalty"]) == (None, 0.0)
    assert losses == ["presence_penalty=dropped"]


CONFIGS: dict[str, tuple[Json, Json, list[str]]] = {
    "sampling": (
        {"sampling": {"temperature": 0.0, "top_p": 0.5, "seed": 7, "stop": ["x"], "presence_penalty": 1}},
        {"temperature": 0.0, "topP": 0.5, "seed": 7, "stopSequences": ["x"], "presencePenalty": 1},
        [],
    ),
    "length": ({"max_output_tokens": 9}, {"maxOutputTokens": 9}, []),
    "probabilities": (
        {"sampling": {"logprobs": True, "top_logprobs": 2}},
        {"responseLogprobs": True, "logprobs": 2},
        [],
    ),
    "probabilities of the chosen": ({"sampling": {"logprobs": True}}, {"responseLogprobs": True}, []),
    "text": ({"text_format": {"type": "text"}}, {}, []),
    "any JSON": ({"text_format": {"type": "json_object"}}, {"responseMimeType": "application/json"}, []),
    "JSON of a schema that is not said": (
        {"text_format": {"type": "json_schema", "name": "n"}},
        {"responseMimeType": "application/json"},
        [],
    ),
    "JSON of a schema that is null": (
        {"text_format": {"type": "json_schema", "name": "n", "schema": None}},
        {"responseMimeType": "application/json"},
        [],
    ),
    "a description of the schema": (
        {"text_format": {**FORMAT, "description": "What it is."}},
        JSON_CONFIG,
        ["text.format.description=dropped", "text.format.schema=pattern dropped"],
    ),
    "JSON of a schema": ({"text_format": FORMAT}, JSON_CONFIG, ["text.format.schema=pattern dropped"]),
    "what has no word": (
        {"sampling": {"user": "u", "metadata": {"a": "b"}, "store": True, "n": 1}, "verbosity": "low"},
        {},
        ["metadata=dropped", "user=dropped", "store=dropped", "text.verbosity=dropped"],
    ),
}


@pytest.mark.parametrize(("given", "config", "lost"), CONFIGS.values(), ids=CONFIGS)
def test_parameters_are_in_the_generation_config(given: Json, config: Json, lost: list[str]) -> None:
    body, losses = lowered(**given)
    assert body.get("generationConfig", {}) == config
    assert losses == lost


def test_thinking_is_configured_by_the_family() -> None:
    config = lowered(NEW, reasoning={"effort": "high"})[0]["generationConfig"]
    assert config == {"thinkingConfig": {"thinkingLevel": "high", "includeThoughts": True}}


def test_native_parameters_are_forwarded_in_either_spelling() -> None:
    profile = Profile(extra_params=frozenset({"top_k", "safety_settings", "cachedContent", "labels", "contents"}))
    extra = {
        "top_k": 4,
        "safety_settings": [],
        "cachedContent": "c",
        "labels": {},
        "contents": 1,
        "min_p": 1,
        "x": None,
    }
    body, losses = lowered(profile=profile, extra=extra)
    assert body == {
        "contents": [user("Hi")],
        "safetySettings": [],
        "cachedContent": "c",
        "labels": {},
        "generationConfig": {"topK": 4},
    }
    assert losses == ["contents=dropped", "min_p=dropped"]


def test_the_newest_models_accept_a_schema_beside_tools() -> None:
    body, _ = lowered(NEW, text_format=FORMAT, tools=[TOOL])
    assert body["generationConfig"]["responseMimeType"] == "application/json"
    assert body["tools"]


def test_older_models_get_no_schema_beside_tools() -> None:
    with pytest.raises(Unrepresentable) as refusal:
        lowered(text_format=FORMAT, tools=[TOOL])
    assert refusal.value.param == "text.format"


def test_a_call_that_must_be_made_has_no_format() -> None:
    body, losses = lowered(text_format=FORMAT, tools=[TOOL], tool_choice="required")
    assert "generationConfig" not in body
    assert losses == ["text.format=dropped"]


def test_tools_that_must_not_be_called_make_way_for_a_format() -> None:
    body, losses = lowered(text_format={"type": "json_object"}, tools=[TOOL], tool_choice="none")
    assert body.keys() == {"contents", "generationConfig"}
    assert losses == ["tools=dropped"]


REFUSED: dict[str, tuple[Json, str]] = {
    "several choices": ({"sampling": {"n": 2}}, "n"),
    "biases": ({"sampling": {"logit_bias": {"1": 5}}}, "logit_bias"),
    "an unknown format": ({"text_format": {"type": "grammar"}}, "text.format.type"),
}


@pytest.mark.parametrize(("given", "param"), REFUSED.values(), ids=REFUSED)
def test_unsupported_values_are_refused_by_name(given: Json, param: str) -> None:
    with pytest.raises(Unrepresentable) as refusal:
        lowered(**given)
    assert refusal.value.param == param


def test_a_turn_without_content_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="input is empty"):
        lower(Turn(model=OLD, items=[message("system", "a")]), DEFAULT_PROFILE)


PATHS = {
    ("gemini-3-pro", True): "/models/gemini-3-pro:streamGenerateContent?alt=sse",
    ("gemini-3-pro", False): "/models/gemini-3-pro:generateContent",
    ("models/gemini-3-pro", False): "/models/gemini-3-pro:generateContent",
    ("tunedModels/mine", False): "/tunedModels/mine:generateContent",
    ("a b?c#d:e", False): "/models/a%20b%3Fc%23d%3Ae:generateContent",
    ("../../v1/x", False): "/models/..%2F..%2Fv1%2Fx:generateContent",
    ("..", False): "/models/..:generateContent",
}


@pytest.mark.parametrize(("params", "path"), PATHS.items(), ids=str)
def test_each_model_has_a_path_of_its_own(params: tuple[str, bool], path: str) -> None:
    model, stream = params
    assert path_of(Turn(model=model, items=[], stream=stream)) == path


def test_a_count_request_has_the_parts_of_the_input() -> None:
    turn = Turn(model=OLD, items=[HI], instructions="a", tools=[TOOL], max_output_tokens=5)
    path, body, key = build_count_request(turn, DEFAULT_PROFILE)
    assert (path, key) == (f"/models/{OLD}:countTokens", "totalTokens")
    [asked] = body.values()
    assert asked.keys() == {"model", "systemInstruction", "contents", "tools"}
    assert asked["model"] == f"models/{OLD}"


def test_models_that_generate_content_are_listed() -> None:
    rows = [
        {"name": "models/a", "supportedGenerationMethods": ["generateContent", "countTokens"]},
        {"name": "models/b", "supportedGenerationMethods": ["embedContent"]},
        {"name": "tunedModels/c"},
        {"name": 7},
        "d",
    ]
    assert parse_model_names({"models": rows}) == ["a", "tunedModels/c"]
    assert parse_model_names({"models": None}) is None
