"""The spellings of Gemini's API, and what of its requests is refused."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal, Required, get_args, get_origin, get_type_hints

import pytest
from typing_extensions import is_typeddict

from translation.errors import InvalidRequest, Unrepresentable
from translation.gemini.client.lift import lift
from translation.gemini.schema import counted, request
from translation.gemini.schema.embedded import EmbedContentRequest, read_embed_request
from translation.gemini.schema.spelling import Spelling

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
            "response_schema": {
                "properties": {"snake_case": {"max_items": "3"}},
                "additional_properties": {"additional_properties": False, "max_items": "3"},
            },
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
            "responseSchema": {
                "properties": {"snake_case": {"maxItems": "3"}},
                "additionalProperties": {"additionalProperties": False, "maxItems": "3"},
            },
        },
        "unknown_field": {"snake_case": None},
    }


TWICE: dict[str, tuple[Json, str]] = {
    "at the top": ({"systemInstruction": "Be kind.", "system_instruction": "Be brief."}, "system_instruction"),
    "inside": ({"generationConfig": {"top_p": 0.1, "topP": 0.2}}, "topP"),
    "an old name": ({"generation_config": {"_topK": 1, "top_k": 2}}, "top_k"),
}


@pytest.mark.parametrize(("body", "param"), TWICE.values(), ids=TWICE)
def test_a_field_has_one_value_in_all_its_spellings(body: Json, param: str) -> None:
    with pytest.raises(InvalidRequest, match="twice") as refused:
        request.normalize(body)
    assert refused.value.param == param


def test_a_field_may_be_spelled_twice_with_one_value() -> None:
    body = {"system_instruction": "Be kind.", "systemInstruction": {"parts": {"text": "Be kind."}}, "_contents": None}
    assert request.normalize(body) == {"systemInstruction": {"parts": [{"text": "Be kind."}]}}


def test_data_of_the_client_is_left_alone() -> None:
    call = {"function_call": {"name": "f", "args": {"snake_case": None}}}
    response = {"function_response": {"name": "f", "response": {"a_b": {"c_d": None}}}}
    (content,) = request.normalize({"contents": [{"role": "model", "parts": [call, response]}]})["contents"]
    assert content["parts"][0]["functionCall"]["args"] == {"snake_case": None}
    assert content["parts"][1]["functionResponse"]["response"] == {"a_b": {"c_d": None}}


def list_plain_fields(schema: type, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yields the path and the type of every number and name in a schema. Lists and maps have one entry."""
    for key, hint in get_type_hints(schema, include_extras=True).items():
        while get_origin(hint) in (Annotated, Required, list) or get_origin(hint) is dict:
            hint = get_args(hint)[1 if get_origin(hint) is dict else 0]
        if is_typeddict(hint) and hint.__name__ not in path:
            yield from list_plain_fields(hint, (*path, hint.__name__, key))
        elif hint in (int, float) or get_origin(hint) is Literal:
            yield (*path, schema.__name__, key), hint


SCHEMAS = (request.Request, EmbedContentRequest)
FIELDS = {".".join(path): hint for schema in SCHEMAS for path, hint in list_plain_fields(schema)}


def test_the_table_of_fields_is_not_empty() -> None:
    names = {path.rpartition(".")[2] for path in FIELDS}
    assert {"temperature", "topK", "maxOutputTokens", "seed", "thinkingBudget", "minimum", "mode", "role"} <= names
    assert "outputDimensionality" in names


@pytest.mark.parametrize(("path", "hint"), FIELDS.items())
def test_numbers_may_be_texts_and_names_in_any_case_everywhere(path: str, hint: Any) -> None:
    """As the JSON of protocol buffers has them: https://protobuf.dev/programming-guides/json/"""
    *_, schema_name, key = path.split(".")
    schema = next(kind for kind in list_schemas(*SCHEMAS) if kind.__name__ == schema_name)
    normalize = Spelling(schema, texts={}).normalize
    if get_origin(hint) is Literal:
        for name in get_args(hint):
            assert normalize({key: name.lower()}) == normalize({key: name.upper()}) == {key: name}
        assert normalize({key: "other"}) == {key: "other"}
        assert normalize({key: 3}) == {key: 3}
        return
    assert normalize({key: "12"}) == {key: 12}
    assert normalize({key: "-1"}) == {key: -1}
    assert normalize({key: "1.2e1"}) == {key: 12}
    assert normalize({key: "12345678901234567890123"}) == {key: 12345678901234567890123}
    for malformed in ("", "abc", "1_0", "0x10", "NaN", "Infinity", "1e999", "\u0661", " 1", True, None, [1]):
        assert normalize({key: malformed}) == ({} if malformed is None else {key: malformed})
    if hint is int:
        assert isinstance(normalize({key: 5.0})[key], int)
        assert normalize({key: "1.5"}) == {key: "1.5"}
        assert normalize({key: 1.5}) == {key: 1.5}
    else:
        assert normalize({key: "0.5"}) == {key: 0.5}


def list_schemas(*schemas: type) -> Iterator[type]:
    known: dict[type, None] = {}
    waiting: list[Any] = [*schemas]
    while waiting:
        hint = waiting.pop()
        if is_typeddict(hint) and hint not in known:
            known[hint] = None
            waiting += get_type_hints(hint, include_extras=True).values()
        waiting += [inner for inner in get_args(hint) if not isinstance(inner, str)]
    return iter(known)


def test_requests_of_googles_cookbook_are_understood() -> None:
    body = request.normalize(
        {
            "model": "m",
            "contents": [{"role": "USER", "parts": [{"text": "Hi"}]}],
            "tools": [{"function_declarations": [{"name": "f"}]}],
            "tool_config": {"function_calling_config": {"mode": "any"}},
            "generation_config": {
                "temperature": "0.5",
                "top_k": "40",
                "max_output_tokens": "100",
                "seed": "7",
                "thinking_config": {"thinking_budget": "512"},
            },
        }
    )
    request.validate(body)
    turn = lift(body)
    assert turn.tool_choice == "required" or turn.tool_choice == {"type": "function", "name": "f"}
    assert (turn.sampling["temperature"], turn.sampling["seed"], turn.max_output_tokens) == (0.5, 7, 100)
    assert turn.extra["top_k"] == 40
    assert read_embed_request({"content": "a", "output_dimensionality": "8"})["outputDimensionality"] == 8


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
