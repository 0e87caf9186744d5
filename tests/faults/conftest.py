"""The gateway each fault is put to, on a real socket."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.faults.config import StartGateway
from tests.serving import serving


@pytest.fixture
def gateway() -> Iterator[StartGateway]:
    """Returns a function that starts a gateway with a configuration. It is stopped when the test ends."""
    with ExitStack() as running:
        yield lambda config: running.enter_context(serving(config))
