"""Requests of Gemini's API as turns: parameters, tools, schemas, losses."""

from typing import Any

import pytest

from translation.errors import InvalidRequest, Unrepresentable
from translation.gemini.client.defaults import add_defaults
from translation.gemini.client.lift import lift
from translation.gemini.client.param_names import PARAM_NAMES
from translation.gemini.client.tools import count_tools
from translation.gemini.schema.request import normalize, validate
from translation.representation.turn import Turn

Json = dict[str, Any]
HI: Json = {"role": "user", "parts": [{"text": "Hi"}]}


def turn_of(body: Json, **more: Any) -> Turn:
    asked = normalize({"model": "m", "stream": False, "contents": [HI], **body})
    validate(asked)
    return lift(asked, **more)


def config_of(**config: Any) -> Turn:
    return turn_of({"generationConfig": config})


def losses_of(turn: Turn) -> list[str]:
    return [str(loss) for loss in turn.losses]


def test_parameters_have_their_place_in_a_turn() -> None:
    turn = turn_of(
        {
            "systemInstruction": {"role": "system", "parts": [{"text": "Be"}, {"text": "kind."}]},
            "safetySettings": [{"category": "A"}],
            "serviceTier": "flex",
            "generationConfig": {
                "temperature": 0.5,
                "topP": 0.9,
                "topK": 40.0,
                "maxOutputTokens": 9,
                "stopSequences": ["x"],
                "candidateCount": 1,
                "seed": 3,
                "presencePenalty": 0.1,
                "frequencyPenalty": 0.2,
                "responseLogprobs": True,
                "logprobs": 2,
                "responseMimeType": "text/plain",
                "responseModalities": ["TEXT"],
            },
        },
        model="upstream",
    )
    assert (turn.model, turn.instructions, turn.max_output_tokens) == ("upstream", "Be\n\nkind.", 9)
    assert turn.sampling == {
        "temperature": 0.5,
        "top_p": 0.9,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
        "seed": 3,
        "logprobs": True,
        "top_logprobs": 2,
        "stop": ["x"],
        "service_tier": "flex",
    }
    assert turn.extra == {"safetySettings": [{"category": "A"}], "top_k": 40}
    assert (turn.text_format, turn.losses, turn.tools, turn.tool_choice) == (None, (), [], None)
    assert config_of(candidateCount=2).sampling == {"n": 2}


THINKING: dict[str, tuple[Json, bool | None, Json | None]] = {
    "none asked for": ({}, None, None),
    "none": ({"thinkingBudget": 0}, False, None),
    "as much as the model wants": ({"thinkingBudget": -1}, True, None),
    "a budget": ({"thinkingBudget": 500, "includeThoughts": True}, True, {"summary": "auto", "max_tokens": 500}),
    "a level": ({"thinkingLevel": "HIGH"}, None, {"effort": "high"}),
    "no level": ({"thinkingLevel": "THINKING_LEVEL_UNSPECIFIED"}, None, None),
}


@pytest.mark.parametrize(("config", "thinking", "reasoning"), THINKING.values(), ids=THINKING)
def test_thinking_is_a_switch_an_effort_or_a_budget(
    config: Json, thinking: bool | None, reasoning: Json | None
) -> None:
    turn = config_of(thinkingConfig=config)
    assert (turn.thinking, turn.reasoning) == (thinking, reasoning)


def test_parameters_of_gemini_only_are_losses() -> None:
    turn = turn_of(
        {
            "labels": {"a": "b"},
            "store": True,
            "serviceTier": "SERVICE_TIER_GOLD",
            "unknown": 1,
            "nothing": None,
            "toolConfig": {
                "retrievalConfig": {"languageCode": "de"},
                "functionCallingConfig": {"mode": "MODE_UNSPECIFIED", "streamFunctionCallArguments": True},
            },
            "tools": [
                {
                    "googleSearch": {"excludeDomains": ["a"]},
                    "functionDeclarations": [
                        {"name": "f", "response": {}, "responseJsonSchema": {}, "behavior": "NON_BLOCKING"}
                    ],
                    "nothing": None,
                }
            ],
            "generationConfig": {"mediaResolution": "LOW", "audioTimestamp": False},
        }
    )
    assert set(losses_of(turn)) == {
        "labels=dropped",
        "store=dropped",
        "serviceTier=dropped",
        "toolConfig.retrievalConfig=dropped",
        "toolConfig.functionCallingConfig.streamFunctionCallArguments=dropped",
        "tools[0].googleSearch.excludeDomains=dropped",
        "tools[0].functionDeclarations[0].response=dropped",
        "tools[0].functionDeclarations[0].responseJsonSchema=dropped",
        "tools[0].functionDeclarations[0].behavior=dropped",
        "generationConfig.mediaResolution=dropped",
        "generationConfig.audioTimestamp=dropped",
    }
    assert turn.extra == {"unknown": 1}
    assert [tool["type"] for tool in turn.tools] == ["web_search", "function"]


REFUSED: dict[str, tuple[Json, str]] = {
    "a cache": ({"cachedContent": "cachedContents/1"}, "cachedContent"),
    "images": ({"generationConfig": {"responseModalities": ["IMAGE"]}}, "generationConfig.responseModalities"),
    "the form of a newer API": (
        {"generationConfig": {"responseFormat": {"type": "text"}}},
        "generationConfig.responseFormat",
    ),
    "an enumeration of nothing": (
        {"generationConfig": {"responseMimeType": "text/x.enum", "responseSchema": {"type": "STRING"}}},
        "generationConfig.responseMimeType",
    ),
    "an enumeration without a schema": (
        {"generationConfig": {"responseMimeType": "text/x.enum"}},
        "generationConfig.responseMimeType",
    ),
    "a type that no other API has": (
        {"generationConfig": {"responseMimeType": "application/xml"}},
        "generationConfig.responseMimeType",
    ),
    "an unknown level": (
        {"generationConfig": {"thinkingConfig": {"thinkingLevel": "HUGE"}}},
        "generationConfig.thinkingConfig.thinkingLevel",
    ),
    "a tool of Google's": ({"tools": [{"codeExecution": {}}]}, "tools[0].codeExecution"),
    "two schemas of a function": (
        {"tools": [{"functionDeclarations": [{"name": "f", "parameters": {}, "parametersJsonSchema": {}}]}]},
        "tools[0].functionDeclarations[0].parametersJsonSchema",
    ),
    "parameters that are no schema": (
        {"tools": [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": True}]}]},
        "tools[0].functionDeclarations[0].parametersJsonSchema",
    ),
    "names without a mode for them": (
        {"toolConfig": {"functionCallingConfig": {"mode": "AUTO", "allowedFunctionNames": ["f"]}}},
        "toolConfig.functionCallingConfig.allowedFunctionNames",
    ),
    "an image of the system": (
        {"systemInstruction": {"parts": [{"inlineData": {"mimeType": "image/png", "data": "A"}}]}},
        "systemInstruction.parts[0]",
    ),
}


@pytest.mark.parametrize(("body", "param"), REFUSED.values(), ids=REFUSED)
def test_parameters_that_would_change_the_answer_are_refused_by_name(body: Json, param: str) -> None:
    with pytest.raises((InvalidRequest, Unrepresentable)) as refused:
        turn_of(body)
    assert refused.value.param == param


CHOICES: dict[str, tuple[Json, Any]] = {
    "auto": ({"mode": "AUTO"}, "auto"),
    "none": ({"mode": "NONE"}, "none"),
    "any": ({"mode": "ANY"}, "required"),
    "one": ({"mode": "ANY", "allowedFunctionNames": ["f"]}, {"type": "function", "name": "f"}),
    "some": (
        {"mode": "ANY", "allowedFunctionNames": ["f", "g"]},
        {
            "type": "allowed_tools",
            "mode": "required",
            "tools": [{"type": "function", "name": "f"}, {"type": "function", "name": "g"}],
        },
    ),
    "some, if any": (
        {"mode": "VALIDATED", "allowedFunctionNames": ["f"]},
        {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
    ),
}


@pytest.mark.parametrize(("config", "choice"), CHOICES.values(), ids=CHOICES)
def test_modes_are_choices_of_tools(config: Json, choice: Any) -> None:
    assert turn_of({"toolConfig": {"functionCallingConfig": config}}).tool_choice == choice


@pytest.mark.parametrize(
    ("kind", "written", "lifted"),
    [
        ("INTEGER", ["101", "201"], [101, 201]),
        ("NUMBER", ["1.5", "2"], [1.5, 2]),
        ("BOOLEAN", ["true"], [True]),
        ("integer", ["1.5", "true", "many", '"1"'], ["1.5", "true", "many", '"1"']),
        ("STRING", ["101"], ["101"]),
    ],
)
def test_values_of_an_enum_have_its_type(kind: str, written: list[Any], lifted: list[Any]) -> None:
    schema = {"type": "OBJECT", "properties": {"a": {"type": kind, "format": "enum", "enum": written}}}
    (tool,) = turn_of({"tools": [{"functionDeclarations": [{"name": "f", "parameters": schema}]}]}).tools
    assert tool["parameters"]["properties"]["a"] == {"type": kind.lower(), "enum": lifted}


def test_schemas_of_the_api_become_json_schemas() -> None:
    schema = {
        "type": "OBJECT",
        "properties": {
            "b": {"type": "ARRAY", "items": {"type": "STRING"}, "minItems": "1", "maxItems": 3},
            "a": {"type": "STRING", "enum": ["x"], "format": "enum", "nullable": True},
            "c": {"anyOf": [{"type": "NUMBER"}, {"ref": "#/$defs/d"}], "nullable": True, "example": 1},
            "e": {"type": "TYPE_UNSPECIFIED", "format": "date-time", "minLength": "many"},
            "g": {"nullable": True, "$ref": "#/$defs/d"},
            "h": {"type": "OBJECT", "additionalProperties": {"type": "INTEGER", "nullable": True}},
            "i": {"type": "OBJECT", "additionalProperties": False},
        },
        "propertyOrdering": ["a", "z"],
        "required": ["a"],
        "defs": {"d": {"type": "INTEGER"}},
    }
    (tool,) = turn_of({"tools": [{"functionDeclarations": [{"name": "f", "parameters": schema}]}]}).tools
    assert tool == {
        "type": "function",
        "name": "f",
        "strict": False,
        "parameters": {
            "type": "object",
            "required": ["a"],
            "properties": {
                "a": {"type": ["string", "null"], "enum": ["x", None]},
                "b": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "string"}},
                "c": {"anyOf": [{"type": "number"}, {"$ref": "#/$defs/d"}, {"type": "null"}], "examples": [1]},
                "e": {"minLength": "many", "format": "date-time"},
                "g": {"$ref": "#/$defs/d"},
                "h": {"type": "object", "additionalProperties": {"type": ["integer", "null"]}},
                "i": {"type": "object", "additionalProperties": False},
            },
            "$defs": {"d": {"type": "integer"}},
        },
    }
    assert [*tool["parameters"]["properties"]] == ["a", "b", "c", "e", "g", "h", "i"]


def test_a_function_without_parameters_takes_an_empty_object() -> None:
    (tool,) = turn_of({"tools": [{"functionDeclarations": [{"name": "f"}]}]}).tools
    assert tool["parameters"] == {"type": "object", "properties": {}}


def test_validated_calls_are_held_to_schemas_that_can_be_closed() -> None:
    items = {"type": "object", "properties": {}}
    whole = {"type": "object", "properties": {"a": {"type": "array", "items": items}}, "required": ["a"]}
    declarations = [
        {"name": "closed", "description": "Closed.", "parametersJsonSchema": whole},
        {"name": "open", "parametersJsonSchema": {**whole, "required": []}},
        {"name": "odd", "parametersJsonSchema": {"type": "object", "properties": []}},
        {"name": "wide", "parametersJsonSchema": {"type": "object", "additionalProperties": {}, "anyOf": [True]}},
        {"name": "bad", "parametersJsonSchema": {"type": "object", "required": {}}},
        {"name": "free", "parametersJsonSchema": {**whole, "properties": {"a": {"type": "object"}}}},
    ]
    turn = turn_of(
        {
            "tools": [{"functionDeclarations": declarations}],
            "toolConfig": {"functionCallingConfig": {"mode": "VALIDATED"}},
        }
    )
    closed, *others = turn.tools
    assert closed["strict"]
    assert closed["parameters"] == {
        "type": "object",
        "properties": {
            "a": {"type": "array", "items": {"type": "object", "properties": {}, "additionalProperties": False}}
        },
        "required": ["a"],
        "additionalProperties": False,
    }
    assert [tool["strict"] for tool in others] == [False] * 5
    assert losses_of(turn) == [
        "toolConfig.functionCallingConfig.mode=AUTO for open",
        "toolConfig.functionCallingConfig.mode=AUTO for odd",
        "toolConfig.functionCallingConfig.mode=AUTO for wide",
        "toolConfig.functionCallingConfig.mode=AUTO for bad",
        "toolConfig.functionCallingConfig.mode=AUTO for free",
    ]


def test_replies_may_be_json_by_a_schema() -> None:
    assert config_of(responseMimeType="application/json").text_format == {"type": "json_object"}
    properties = {"a": {"type": "STRING"}}
    schema = {"type": "OBJECT", "properties": properties, "required": ["a"]}
    strict = config_of(responseMimeType="application/json", responseSchema=schema).text_format
    assert strict == {
        "type": "json_schema",
        "name": "output",
        "strict": True,
        "schema": {
            "type": "object",
            "required": ["a"],
            "properties": {"a": {"type": "string"}},
            "additionalProperties": False,
        },
    }
    listed = config_of(responseMimeType="application/json", responseSchema={"type": "ARRAY", "items": schema})
    assert listed.text_format is not None
    assert (listed.text_format["strict"], listed.text_format["schema"]["required"]) == (True, ["value"])
    assert listed.text_format["schema"]["properties"]["value"]["items"] == strict["schema"]
    loose = {"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}]}}}
    kept = config_of(responseMimeType="application/json", responseJsonSchema=loose).text_format
    assert kept == {"type": "json_schema", "name": "output", "strict": False, "schema": loose}


def test_an_enumeration_is_a_schema_of_an_object_with_the_value() -> None:
    enum = {"type": "STRING", "enum": ["a", "b"], "format": "enum"}
    turn = config_of(responseMimeType="text/x.enum", responseSchema=enum, responseLogprobs=True, logprobs=2)
    assert turn.text_format is not None
    assert (turn.text_format["strict"], turn.text_format["schema"]) == (
        True,
        {
            "type": "object",
            "properties": {"value": {"type": "string", "enum": ["a", "b"]}},
            "required": ["value"],
            "additionalProperties": False,
        },
    )
    assert (turn.sampling, losses_of(turn)) == ({}, ["generationConfig.responseLogprobs=dropped"])


def test_tools_are_counted_wherever_they_are() -> None:
    declared = {"functionDeclarations": [{"name": "f"}, {"name": "g"}]}
    assert count_tools({}) == 0
    assert count_tools({"tools": [declared, {"googleSearch": {}}, 3]}) == 3


DEFAULTS: dict[str, tuple[Json, Json, Json]] = {
    "nothing": ({}, {"contents": []}, {"contents": []}),
    "parameters of the config": (
        {"temperature": 0.2, "max_tokens": 5, "stop": "x", "top_k": 3},
        {"generationConfig": {"temperature": 0.9}},
        {"generationConfig": {"temperature": 0.9, "topK": 3, "maxOutputTokens": 5, "stopSequences": ["x"]}},
    ),
    "a list of ends, and others": (
        {"stop": ["x"], "service_tier": "default", "verbosity": "low", "chat_template_kwargs": {"a": 1}},
        {},
        {
            "generationConfig": {"stopSequences": ["x"]},
            "serviceTier": "standard",
            "verbosity": "low",
            "chat_template_kwargs": {"a": 1},
        },
    ),
    "an effort above all": (
        {"reasoning": {"effort": "xhigh"}},
        {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}},
        {"generationConfig": {"thinkingConfig": {"thinkingLevel": "high", "includeThoughts": True}}},
    ),
    "an effort beside the client's own": (
        {"reasoning_effort": "low"},
        {"generationConfig": {"thinkingConfig": {"thinkingBudget": 5}}},
        {"generationConfig": {"thinkingConfig": {"thinkingBudget": 5}}},
    ),
    "no thinking": ({"thinking": False}, {}, {"generationConfig": {"thinkingConfig": {"thinkingBudget": 0}}}),
    "thinking": ({"thinking": True}, {}, {"generationConfig": {"thinkingConfig": {"thinkingBudget": -1}}}),
    "a budget": (
        {"thinking": {"type": "enabled", "budget_tokens": 500}},
        {},
        {"generationConfig": {"thinkingConfig": {"thinkingBudget": 500}}},
    ),
    "a budget beside an effort, which the API takes only one of": (
        {"reasoning": {"effort": "low", "max_tokens": 500}},
        {},
        {"generationConfig": {"thinkingConfig": {"thinkingLevel": "low"}}, "reasoning": {"max_tokens": 500}},
    ),
    "a budget of no thinking": (
        {"reasoning": {"max_tokens": 500}, "thinking": False},
        {},
        {"generationConfig": {"thinkingConfig": {"thinkingBudget": 0}}},
    ),
    "a budget beside the client's own effort": (
        {"reasoning": {"max_tokens": 500}},
        {"generationConfig": {"thinkingConfig": {"thinkingLevel": "low"}}},
        {"generationConfig": {"thinkingConfig": {"thinkingLevel": "low"}}},
    ),
}


@pytest.mark.parametrize(("defaults", "body", "merged"), DEFAULTS.values(), ids=DEFAULTS)
def test_defaults_fill_what_a_request_leaves_out(defaults: Json, body: Json, merged: Json) -> None:
    assert add_defaults(body, defaults) == merged


NAMED: dict[str, tuple[str, str, str, str]] = {
    "a parameter": ("top_p", "", "", "generationConfig.topP"),
    "a part of one": ("reasoning", "", ".effort", "generationConfig.thinkingConfig.thinkingLevel"),
    "an unknown part of one": ("reasoning", "", ".other", "generationConfig.thinkingConfig"),
    "a medium": ("input", "[2]", ".content[1].image_url", "contents[2].parts[1].inlineData"),
    "an image on the web": ("input", "[0]", ".content[0].image_url", "contents[0].parts[0].fileData"),
    "an image beyond the contents": ("input", "[0]", ".content[5].image_url", "contents[0].parts[5].inlineData"),
    "an image of a result": ("input", "[1]", ".output[0].image_url", "contents[1].output[0].inlineData"),
    "a choice": ("tool_choice", "", "", "toolConfig.functionCallingConfig"),
    "the format": ("text", "", ".format.schema", "generationConfig.responseSchema"),
    "a declaration": ("tools", "[1]", ".parameters", "tools[1].functionDeclarations[0].parameters"),
    "a search": ("tools", "[0]", "", "tools[0].googleSearch"),
    "all tools": ("tools", "", "", "tools"),
    "a tool that is not the client's": ("tools", "[9]", ".name", "tools"),
    "a parameter of the client's own": ("labels", "", ".a", "labels.a"),
}


@pytest.mark.parametrize(("name", "place", "rest", "named"), NAMED.values(), ids=NAMED)
def test_parameters_of_a_turn_have_the_clients_names(name: str, place: str, rest: str, named: str) -> None:
    body = {
        "tools": [{"googleSearch": {}}, {"functionDeclarations": [{"name": "f"}]}],
        "generationConfig": {"responseSchema": {}},
        "contents": [{"parts": [{"fileData": {}}]}],
    }
    assert "".join(PARAM_NAMES.find(name, place, rest, body)) == named
    assert "".join(PARAM_NAMES.find("text", "", "", {})) == "generationConfig.responseMimeType"
