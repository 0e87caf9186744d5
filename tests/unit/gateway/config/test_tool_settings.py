"""gateway/config/tool_settings.py: the bounds of a response with hosted tools."""

import pytest

from gateway.config.tool_settings import McpSettings


@pytest.mark.parametrize(("requested", "calls"), [(None, 64), (3, 3), (1000, 64)])
def test_a_request_lowers_the_limit_of_calls_and_never_raises_it(requested: int | None, calls: int) -> None:
    assert McpSettings().bounds(requested).calls == calls


def test_the_bounds_are_those_of_the_configuration() -> None:
    bounds = McpSettings(rounds=2, calls=5, result_chars=200).bounds(None)
    assert (bounds.rounds, bounds.calls, bounds.result_chars) == (2, 5, 200)
