"""Malformed whole replies to relayed requests for a stream: each is a failure of the upstream, in every dialect."""

from typing import Any

import orjson
import pytest

from providers.base import Dialect
from providers.errors import UpstreamGarbled
from tests.unit.providers.http.test_exchange import JSON, Body, provider
from tests.upstream.anthropic import message, text_block

MALFORMED: dict[str, tuple[Dialect, Any]] = {
    "a message whose block is a text": ("messages", {**message(), "content": ["Hi"]}),
    "a message whose block has no type": ("messages", {**message(), "content": [{"text": "Hi"}]}),
    "a message whose content is a number": ("messages", {**message(), "content": 5}),
    "a message whose text is a number": ("messages", message(text_block() | {"text": 5})),
    "a message whose stop reason is a number": ("messages", {**message(), "stop_reason": 5}),
    "a completion whose call is a text": ("chat", {"choices": [{"message": {"tool_calls": ["f"]}}]}),
    "a completion whose calls are a number": ("chat", {"choices": [{"message": {"tool_calls": 5}}]}),
}


@pytest.mark.parametrize(("dialect", "reply"), MALFORMED.values(), ids=MALFORMED)
async def test_a_malformed_whole_reply_is_garbled(dialect: Dialect, reply: Any) -> None:
    relay = provider(Body(orjson.dumps(reply)), JSON).prepare_relay(dialect, {})
    with pytest.raises(UpstreamGarbled) as failure:
        _ = [read async for read in relay.reads()]
    assert failure.value.provider == "engine"


async def test_the_failure_says_what_is_wrong_where_that_is_known() -> None:
    reply = {**message(), "stop_reason": 5}
    relay = provider(Body(orjson.dumps(reply)), JSON).prepare_relay("messages", {})
    with pytest.raises(UpstreamGarbled, match="stop_reason"):
        _ = [read async for read in relay.reads()]
