"""The server whose tools run as hosted tools."""

from collections.abc import Iterator

import pytest

from tests.integration.mapped_tools.mapped_gateway import MappedServer, mapped_server


@pytest.fixture
def server() -> Iterator[MappedServer]:
    with mapped_server() as running:
        yield running
