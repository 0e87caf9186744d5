"""What of the `reasoning` parameter is lost on upstreams that have none."""

import pytest

from translation.lowering.reasoning_losses import reasoning_losses
from translation.representation.json_types import Json


@pytest.mark.parametrize(
    ("unsupported", "losses"),
    [
        ({}, []),
        ({"summary": None}, []),
        ({"summary": "auto"}, []),
        ({"summary": "concise"}, ["reasoning.summary=as auto"]),
        ({"max_tokens": 5, "summary": "detailed"}, ["reasoning.max_tokens=dropped", "reasoning.summary=as auto"]),
    ],
    ids=str,
)
def test_only_the_length_of_a_summary_is_lost(unsupported: Json, losses: list[str]) -> None:
    assert list(map(str, reasoning_losses(unsupported))) == losses
