"""gateway/tracing/conventions.py: the numbers of a request, wherever its API has them."""

from typing import Any

import pytest

from gateway.relayed_paths.relays import RELAYED_PATHS
from gateway.tracing.conventions import OPERATIONS, PROVIDERS, read_sampling
from providers.config import PROVIDER_DEFAULTS

MAX, TEMPERATURE, TOP_P = "gen_ai.request.max_tokens", "gen_ai.request.temperature", "gen_ai.request.top_p"


@pytest.mark.parametrize(
    "body",
    [
        {"max_output_tokens": 5, "temperature": 0.5, "top_p": 1},
        {"max_completion_tokens": 5, "max_tokens": 9, "temperature": 0.5, "top_p": 1},
        {"max_tokens": 5, "temperature": 0.5, "top_p": 1},
        {"generationConfig": {"maxOutputTokens": 5, "temperature": 0.5, "topP": 1}},
        {"options": {"num_predict": 5, "temperature": 0.5, "top_p": 1}},
    ],
)
def test_every_api_has_its_places(body: dict[str, Any]) -> None:
    assert read_sampling(body) == {MAX: 5, TEMPERATURE: 0.5, TOP_P: 1}


@pytest.mark.parametrize("value", [None, True, "the text of a client", [1], {"a": 1}])
def test_only_numbers_are_read(value: object) -> None:
    assert read_sampling({"max_tokens": value, "temperature": value, "options": value, "generationConfig": value}) == {}


def test_every_relayed_path_has_an_operation() -> None:
    assert {row.name for row in RELAYED_PATHS} == set(OPERATIONS)


def test_types_of_providers_exist() -> None:
    assert set(PROVIDERS) <= set(PROVIDER_DEFAULTS)
