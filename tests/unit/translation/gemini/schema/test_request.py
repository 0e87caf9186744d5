"""The spellings of Gemini's API, and what of its requests is refused."""

from typing import Any

import pytest

from translation.errors import InvalidRequest, Unrepresentable
from translation.gemini.schema import counted, request

Json = dict[str, Any]
HI: Json = {"role": "user", "parts": [{"text": "Hi"}]}


def test_both_spellings_and_single_objects_mean_the_same() -> None:
    body = {
        "system_instruction": "Be kind.",
        "contents": {"parts": {"inline_data": {"mime_type": "image/png", "data": "AAAA", "display_name": None}}},
        "tools": {"function_declarations": {"name": "f", "parameters": {"any_of": {"type": "STRING"}}}},
        "generation_config": {
            "stop_sequences": "x",
            "_responseJsonSchema": {"snake_case": 1},
            "response_schema": {"properties": {"snake_case": {"max_items": "3"}}},
            "top_k": None,
        },
        "unknown_field": {"snake_case": None},
    }
    assert request.normalize(body) == {
        "systemInstruction": {"parts": [{"text": "Be kind."}]},
        "contents": [{"parts": [{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]}],
        "tools": [{"functionDeclarations": [{"name": "f", "parameters": {"anyOf": [{"type": "STRING"}]}}]}],
        "generationConfig": {
            "stopSequences": ["x"],
            "responseJsonSchema": {"snake_case": 1},
            "responseSchema": {"properties": {"snake_case": {"maxItems": "3"}}},
        },
        "unknown_field": {"snake_case": None},
    }


def test_data_of_the_client_is_left_alone() -> None:
    call = {"function_call": {"name": "f", "args": {"snake_case": None}}}
    response = {"function_response": {"name": "f", "response": {"a_b": {"c_d": None}}}}
    (content,) = request.normalize({"contents": [{"role": "model", "parts": [call, response]}]})["contents"]
    assert content["parts"][0]["functionCall"]["args"] == {"snake_case": None}
    assert content["parts"][1]["functionResponse"]["response"] == {"a_b": {"c_d": None}}


def test_values_of_other_types_are_left_for_the_validation() -> None:
    body = {
        "contents": [3],
        "generationConfig": [],
        "tools": [{"functionDeclarations": [{"parameters": {"properties": 1}}]}],
    }
    assert request.normalize(body) == body


REFUSED: dict[str, tuple[Json, str]] = {
    "no contents": ({"contents": []}, "contents"),
    "a role of another API": ({"contents": [{"role": "assistant", "parts": []}]}, "contents[0].role"),
    "a content without parts": ({"contents": [{"role": "user"}]}, "contents[0].parts"),
    "a part of two kinds": (
        {"contents": [{"parts": [{"text": "a", "functionCall": {"name": "f"}}]}]},
        "contents[0].parts[0]",
    ),
    "an empty part": ({"contents": [{"parts": [{}]}]}, "contents[0].parts[0]"),
    "a part of the system that is empty": (
        {"contents": [HI], "systemInstruction": {"parts": [{}]}},
        "systemInstruction.parts[0]",
    ),
    "a fraction of a candidate": ({"contents": [HI], "generationConfig": {"topK": 1.5}}, "generationConfig.topK"),
    "a schema for a text": (
        {"contents": [HI], "generationConfig": {"responseSchema": {"type": "STRING"}}},
        "generationConfig.responseMimeType",
    ),
    "two schemas": (
        {
            "contents": [HI],
            "generationConfig": {
                "responseMimeType": "application/json",
                "responseSchema": {"type": "STRING"},
                "responseJsonSchema": {},
            },
        },
        "generationConfig.responseJsonSchema",
    ),
    "two amounts of thinking": (
        {"contents": [HI], "generationConfig": {"thinkingConfig": {"thinkingBudget": 1, "thinkingLevel": "LOW"}}},
        "generationConfig.thinkingConfig",
    ),
}


@pytest.mark.parametrize(("body", "param"), REFUSED.values(), ids=REFUSED)
def test_malformed_requests_are_refused_by_name(body: Json, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        request.validate(request.normalize({"model": "m", **body}))
    assert refused.value.param == param


def test_parts_of_an_unknown_kind_are_refused() -> None:
    with pytest.raises(Unrepresentable, match="'toolCall'"):
        request.validate({"model": "m", "contents": [{"parts": [{"toolCall": {}}]}]})


def test_a_part_may_have_only_a_signature() -> None:
    request.validate({"model": "m", "contents": [{"role": "model", "parts": [{"thoughtSignature": "AA=="}]}, HI]})


def test_the_counted_request_is_the_body_or_inside_it() -> None:
    assert counted.find_counted_request({"contents": [HI]}, "m") == {"contents": [HI]}
    assert counted.find_counted_request({"generate_content_request": {"contents": [HI]}}, "m") == {"contents": [HI]}
    with pytest.raises(InvalidRequest, match="not both"):
        counted.find_counted_request({"contents": [HI], "generateContentRequest": {}}, "m")
    with pytest.raises(InvalidRequest, match="expected an object"):
        counted.find_counted_request({"generateContentRequest": 3}, "m")
    with pytest.raises(InvalidRequest, match=r"'models/n'.*'m'") as refused:
        counted.find_counted_request({"generateContentRequest": {"model": "models/n", "contents": [HI]}}, "m")
    assert refused.value.param == "generateContentRequest.model"
    counted.validate_counted({"model": "m", "contents": [HI]})
    with pytest.raises(InvalidRequest):
        counted.validate_counted({"model": "m", "contents": [{"parts": [{}]}]})


def test_the_schemas_of_requests_are_documented() -> None:
    assert request.REQUEST_SCHEMA()["$id"] == "generate-content"
    assert counted.COUNTED_SCHEMA()["$id"] == "count-tokens"
