"""Commands that run in the test's own process."""

import pytest


@pytest.fixture(autouse=True)
def commands_in_process(logs_unconfigured: None) -> None:
    """Every command of this folder runs in the test's own process."""
