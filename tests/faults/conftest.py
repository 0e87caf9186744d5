"""The gateway each fault is put to, on a real socket."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.serving import Gateway, serving

StartGateway = Callable[[dict[str, Any]], Gateway]


@pytest.fixture
def gateway() -> Iterator[StartGateway]:
    """Call it with a configuration; what it starts is stopped when the test ends."""
    with ExitStack() as running:
        yield lambda config: running.enter_context(serving(config))
