"""providers/engines/servers/llama_schemas.py: what llama.cpp leaves out of a schema. Its real converter is tested
in tests/integration/real_engines/test_llama_schemas.py."""

from typing import Any

import pytest

from providers.config import ProviderConfig
from providers.engines.servers.llama_schemas import list_unenforced_keywords
from providers.profiles import build_profile
from providers.registry import build_provider
from tests.unit.support.fake_engine import message
from translation.errors import InvalidRequest
from translation.representation.loss import Loss
from translation.representation.turn import Turn

Json = dict[str, Any]

ODD: Json = {"type": "array", "items": {"type": "number", "minimum": 3}, "uniqueItems": True}
IMPOSSIBLE: Json = {"type": "integer", "minimum": 10, "maximum": 5}


def inside(schema: Json) -> Json:
    return {"type": "object", "properties": {"not": {"anyOf": [{"type": "null"}, schema]}}, "required": ["not"]}


@pytest.mark.parametrize("guided", [True, False])
def test_plain_schemas_lose_nothing(guided: bool) -> None:
    everyday = inside(
        {
            "type": "object",
            "description": "not a keyword",
            "properties": {
                "a": {"type": ["integer", "null"], "minimum": 1, "maximum": 9},
                "b": {"type": "array", "items": {"enum": ["x"]}, "minItems": 1, "uniqueItems": False},
                "c": {"type": "string", "format": "date-time"},
                "d": {"type": "string", "pattern": r"^(?:a|\d{2})$"},
                "e": {"const": {"uniqueItems": True}},
                "f": {"$ref": "#/$defs/f", "description": "a reference"},
            },
            "required": ["a", "b", "c", "d", "e", "f"],
            "additionalProperties": False,
            "$defs": {"f": {"type": "string", "minLength": 1}},
        }
    )
    assert list_unenforced_keywords(everyday, uses_llguidance=guided) == []


def test_keywords_are_found_wherever_they_are_and_named_once() -> None:
    assert list_unenforced_keywords({"anyOf": [inside(ODD), ODD]}, uses_llguidance=False) == ["uniqueItems", "minimum"]
    assert list_unenforced_keywords({"anyOf": [inside(ODD), ODD]}, uses_llguidance=True) == ["uniqueItems"]


@pytest.mark.parametrize("nothing", [None, True, "x", 3, {}, {"type": "string", "pattern": 3, "required": 5}])
def test_values_that_are_no_schema_are_left_to_the_server(nothing: Any) -> None:
    assert list_unenforced_keywords(nothing, uses_llguidance=False) == []
    assert list_unenforced_keywords(nothing, uses_llguidance=True) == []


def turn(**fields: Any) -> Turn:
    return Turn(model="m", items=[message("Hi")], **fields)


def provider() -> Any:
    return build_provider(
        "up", ProviderConfig.model_validate({"type": "llama_server", "base_url": "http://127.0.0.1:9/v1"})
    )


@pytest.mark.parametrize("passes", [{}, {"two_pass": "on"}])
async def test_ignored_keywords_of_a_schema_are_losses(passes: Json) -> None:
    up = provider()
    form = {"type": "json_schema", "name": "a", "schema": inside(ODD)}
    exchange = up.prepare(turn(text_format=form), build_profile("llama_server", passes))
    assert list(exchange.losses) == [
        Loss("text.format.schema", "uniqueItems not enforced"),
        Loss("text.format.schema", "minimum not enforced"),
    ]
    plain = up.prepare(turn(text_format={"type": "json_object"}), build_profile("llama_server", passes))
    assert list(plain.losses) == []
    await up.aclose()


@pytest.mark.parametrize(
    ("dialect", "body", "param"),
    [
        ("chat", {"response_format": {"type": "json_schema", "json_schema": {"schema": ODD}}}, "response_format"),
        ("chat", {"json_schema": ODD}, "json_schema"),
        ("responses", {"text": {"format": {"type": "json_schema", "schema": ODD}}}, "text.format.schema"),
    ],
)
async def test_ignored_keywords_are_losses_on_a_relay_too(dialect: Any, body: Json, param: str) -> None:
    up = provider()
    told = ["uniqueItems not enforced", "minimum not enforced"]
    assert list(up.prepare_relay(dialect, body).losses) == [Loss(param, what) for what in told]
    await up.aclose()


@pytest.mark.parametrize("passes", [{}, {"two_pass": "on"}])
async def test_endless_schemas_are_refused_for_external_servers_too(passes: Json) -> None:
    up = provider()
    with pytest.raises(InvalidRequest) as refused:
        up.prepare(turn(text_format={"schema": inside(IMPOSSIBLE)}), build_profile("llama_server", passes))
    assert refused.value.param == "text.format"
    with pytest.raises(InvalidRequest) as refused:
        up.prepare_relay("chat", {"messages": [], "response_format": {"json_schema": {"schema": {"minLength": 10**9}}}})
    assert refused.value.param == "response_format"
    up.prepare_relay("chat", {"messages": [{"role": "user", "content": "Hi", "minLength": 10**9}]})
    await up.aclose()
