"""Keys for sealing in the configuration."""

from typing import Any

import pytest

from gateway.config.settings import parse_settings
from gateway.config.yaml_file import ConfigError

KEY, OTHER = "k" * 32, "o" * 44


@pytest.mark.parametrize(
    ("sealing", "keys"),
    [
        ({}, []),
        ({"keys": [KEY, OTHER]}, [KEY, OTHER]),
        ({"keys": ["${SEALING_KEY}"]}, [KEY]),
        ({"keys_env": "SEALING_KEYS"}, [KEY, OTHER]),
    ],
)
def test_keys_are_written_or_read_from_the_environment(sealing: Any, keys: list[str]) -> None:
    environ = {"SEALING_KEY": KEY, "SEALING_KEYS": f"{KEY}, {OTHER}"}
    settings = parse_settings({"sealing": sealing}, environ=environ)
    assert settings.sealing.secrets == tuple(key.encode() for key in keys)
    assert KEY not in repr(settings)


@pytest.mark.parametrize(
    ("sealing", "expected"),
    [
        ({"keys": [KEY, "short"]}, "at least 32 characters"),
        ({"keys_env": "NOWHERE"}, "NOWHERE is not set"),
        ({"keys": [KEY], "keys_env": "SEALING_KEYS"}, "not both"),
    ],
)
def test_a_problem_with_a_key_is_reported_without_the_key(sealing: Any, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected) as refused:
        parse_settings({"sealing": sealing}, environ={"SEALING_KEYS": OTHER})
    assert "sealing.keys" in str(refused.value)
    assert "short" not in str(refused.value)
    assert KEY not in str(refused.value)
