"""translation/representation/profile.py"""

import pytest

from translation.representation.profile import Profile, two_pass_profile


@pytest.mark.parametrize(("parser", "read_by"), [("openai", "hermes"), ("mistral", "mistral")])
def test_calls_of_an_engine_are_read_out_of_its_text(parser: str, read_by: str) -> None:
    assert two_pass_profile(Profile(tool_parser=parser, max_tool_calls_per_turn=3)) == Profile(
        two_pass="on", tool_parser=read_by, max_tool_calls_per_turn=3
    )
