"""Every provider counts tokens by the usage of a turn, or reports that it cannot."""

import asyncio

import pytest

from providers import errors
from providers.base import CountMethod, WireDialect
from tests.contract.conftest import Build
from tests.upstream import Hang, Reply, ScriptedUpstream, error_reply
from tests.upstream.builders import SSE
from tests.upstream.faults import ANSWERS, sound
from translation.errors import Unrepresentable
from translation.representation.profile import DEFAULT_PROFILE
from translation.representation.turn import Turn

TURN = Turn(model="m", items=[{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}])
GONE_S = 5.0
BRIEF_S = 0.2
"""A silence that nothing is to end in time."""


async def test_a_turn_of_one_token_is_not_streamed_and_counted_by_its_usage(
    dialect: WireDialect, provider_at: Build
) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(sound(ANSWERS[dialect]))
        assert await (await provider_at(upstream.url)).count_tokens(TURN, DEFAULT_PROFILE, "turn") == 9
        (request,) = upstream.requests
        assert not request.streams


async def test_a_provider_without_a_method_has_no_count(provider_at: Build) -> None:
    async with ScriptedUpstream() as upstream:
        with pytest.raises(Unrepresentable):
            await (await provider_at(upstream.url)).count_tokens(TURN, DEFAULT_PROFILE, "none")
        assert upstream.requests == []


@pytest.mark.parametrize("way", ["responses", "chat", "template", "turn"])
async def test_each_failure_has_its_code(provider_at: Build, way: CountMethod) -> None:
    async with ScriptedUpstream() as upstream:
        provider = await provider_at(upstream.url)
        upstream.script(error_reply(429, "slow down"))
        with pytest.raises(errors.UpstreamRateLimited):
            await provider.count_tokens(TURN, DEFAULT_PROFILE, way)
        impatient = await provider_at(upstream.url, silence_s=BRIEF_S)
        upstream.script(Reply(headers=SSE, body=[Hang()]))
        with pytest.raises(errors.UpstreamTimeout):
            await impatient.count_tokens(TURN, DEFAULT_PROFILE, way)


async def test_a_client_that_leaves_ends_the_count_upstream(provider_at: Build) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(Reply(headers=SSE, body=[Hang()]))
        counting = asyncio.ensure_future((await provider_at(upstream.url)).count_tokens(TURN, DEFAULT_PROFILE, "chat"))
        request = await upstream.received(1)
        counting.cancel()
        async with asyncio.timeout(GONE_S):
            await request.closed
