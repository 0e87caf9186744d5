"""Commands that run in the test's own process."""

import pytest


@pytest.fixture(autouse=True)
def logs_unconfigured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command's stderr is closed once it is over, and loggers of the whole process would go on writing to it."""
    monkeypatch.setattr("gateway.logs.configure_logs", lambda *_: None)
