"""The upstream of background responses."""

from collections.abc import AsyncIterator

import pytest

from tests.upstream import ScriptedUpstream


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as up:
        yield up
