"""A request whose first target fails before content is served by the next, and whoever watches it sees each moment."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from gateway.dialects.chat.endpoint import CHAT
from gateway.errors import TurnFailed
from gateway.http.auth import ANONYMOUS
from gateway.planning.admitted_request import AdmittedRequest
from gateway.replies.endpoints import ReplyIdentity
from gateway.replies.observers import ReplyEnd, RequestObserver
from gateway.service.run import Run
from gateway.service.run_factory import RunFactory
from gateway.upstreams.outcomes import ResultName
from providers.base import Batch, Dialect
from providers.capabilities import CAPABILITIES
from providers.errors import ProviderError, UpstreamBroken, UpstreamRejected, UpstreamUnreachable
from tests.unit.support.chat_replies import text
from tests.unit.support.routing import Recorder, resolver, settings
from tests.unit.support.translator_drivers import conclude
from translation.errors import Unrepresentable
from translation.hosted.tool_report import CallFigures
from translation.parsers.text_calls import TOOL_WARNINGS
from translation.representation.events import Failed, Finished, Noted, Started, Usage
from translation.representation.profile import Profile
from translation.representation.turn import Turn

Json = dict[str, Any]
SAID: Sequence[Batch] = ([Started("m")], text(0, "Hi"), [Finished("stop", "stop", Usage(1, 2))])


@dataclass
class Upstream(Recorder):
    """Plays batches, then fails with `error` if it has one."""

    played: Sequence[Batch] = SAID
    error: ProviderError | None = None

    def prepare(self, turn: Turn, profile: Profile) -> "Upstream":
        self.turn = turn
        return self

    def prepare_relay(self, dialect: Dialect, body: Json, credentials: Sequence[str] = ()) -> "Upstream":
        raise AssertionError("nothing is relayed here")

    async def batches(self) -> AsyncGenerator[Batch, None]:
        for batch in self.played:
            yield batch
        if self.error is not None:
            raise self.error


class Watcher:
    """Keeps the names of the moments."""

    def __init__(self) -> None:
        self.moments: list[str] = []
        self.ends: list[ReplyEnd] = []

    def observe_request(
        self, endpoint: str, model: str, *, streams: bool, is_shared: bool, is_job: bool = False
    ) -> RequestObserver:
        self.moments.append(f"accepted {endpoint} {model} {streams}")
        return self

    def observe_attempt(self, provider: str, number: int, model: str) -> None:
        self.moments.append(f"attempt {number} {provider}")

    def observe_head(self) -> None:
        self.moments.append("head")

    def observe_model(self, model: str) -> None:
        self.moments.append(f"model {model}")

    def observe_content(self) -> None:
        self.moments.append("content")

    def observe_result(self, result: ResultName) -> None:
        self.moments.append(f"result {result}")

    def observe_round(self, usage: Usage | None, finish_reason: str | None) -> None:
        self.moments.append("round")

    def observe_call(self, tool: str, began_ns: int, figures: CallFigures) -> None:
        self.moments.append(f"call {tool}")

    def observe_end(self, end: ReplyEnd) -> None:
        self.ends.append(end)
        self.moments.append("end" if end.usage is None else f"end {end.usage.output}")


def build_run(*upstreams: Upstream, watcher: Watcher | None = None, **params: Any) -> Run:
    rows = [{"provider": upstream.name, "tier": tier} for tier, upstream in enumerate(upstreams)]
    shared = {"upstreams": rows, "routing": {"attempts": 2}}
    models: Json = {"mine": shared if len(rows) > 1 else {"provider": upstreams[0].name}}
    route = resolver(models, *upstreams).resolve("mine")
    targets = [replace(each, capabilities=replace(each.capabilities, dialects=frozenset())) for each in route.targets]
    route = replace(route, targets=tuple(targets))
    body: Json = {"model": "mine", "messages": [{"role": "user", "content": "Hi"}], **params}
    facts = CHAT.request.read_facts(body)
    admitted = AdmittedRequest(CHAT, body, facts, route, route.target, ANONYMOUS, ReplyIdentity("c", 1, "mine"))
    factory = RunFactory(settings(models, *(each.name for each in upstreams)), observer=watcher or Watcher())
    return factory.build_run(admitted)


async def stream_of(run: Run) -> bytes:
    stream = run.build_stream()
    return b"".join([frames async for frames in stream.frames()]) + conclude(stream)


UNREACHABLE = UpstreamUnreachable("no connection")
REFUSED = UpstreamRejected("no", status=400)


async def test_a_stream_comes_from_the_next_target_if_the_first_fails_before_content() -> None:
    watcher = Watcher()
    first, second = Upstream("a", played=[[Started("m")]], error=UNREACHABLE), Upstream("b")
    sent = await stream_of(build_run(first, second, watcher=watcher, stream=True))
    assert sent.count(b'"role":"assistant"') == 1
    assert b'"content":"Hi"' in sent
    assert watcher.moments == [
        "accepted chat mine True",
        *("attempt 1 a", "head", "end", "result unreachable"),
        *("attempt 2 b", "head", "content", "end 2", "result ok"),
    ]


async def test_a_json_reply_comes_from_the_next_target_if_the_first_fails_at_all() -> None:
    watcher = Watcher()
    first, second = Upstream("a", played=SAID[:2], error=UpstreamBroken("cut")), Upstream("b")
    reply = await build_run(first, second, watcher=watcher).produce_reply()
    assert reply["choices"][0]["message"]["content"] == "Hi"
    assert watcher.moments == [
        "accepted chat mine False",
        "attempt 1 a",
        "end",
        "result reset",
        "attempt 2 b",
        "end 2",
        "result ok",
    ]


async def test_warnings_of_a_failed_attempt_are_not_losses_of_the_next() -> None:
    warned = Noted(facts={TOOL_WARNINGS: [{"name": "f", "text": "odd"}]})
    first, second = Upstream("a", played=[[Started("m")], [warned]], error=UpstreamBroken("cut")), Upstream("b")
    run = build_run(first, second)
    await run.produce_reply()
    assert run.build_loss_headers() == {}


async def test_the_end_of_a_failed_json_reply_has_the_failure() -> None:
    watcher = Watcher()
    failing = Upstream("a", played=[[Started("m")], [Failed("server_error", "it broke")]])
    with pytest.raises(TurnFailed, match="it broke"):
        await build_run(failing, watcher=watcher).produce_reply()
    assert watcher.ends[-1].failed == Failed("server_error", "it broke")


async def test_nobody_else_is_asked_once_content_was_sent() -> None:
    first, second = Upstream("a", played=SAID[:2], error=UpstreamBroken("cut")), Upstream("b")
    with pytest.raises(UpstreamBroken):
        await stream_of(build_run(first, second, stream=True))
    assert second.turn is None


@pytest.mark.parametrize("stream", [True, False])
async def test_nobody_else_is_asked_for_a_request_that_was_refused(stream: bool) -> None:
    first, second = Upstream("a", played=[], error=REFUSED), Upstream("b")
    run = build_run(first, second, stream=stream)
    with pytest.raises(UpstreamRejected, match="no"):
        await (stream_of(run) if stream else run.produce_reply())
    assert second.turn is None


@pytest.mark.parametrize("stream", [True, False])
async def test_the_client_gets_the_failure_of_the_last_target(stream: bool) -> None:
    failing = [Upstream(name, played=[], error=UpstreamUnreachable(f"no {name}")) for name in "ab"]
    run = build_run(*failing, stream=stream)
    with pytest.raises(UpstreamUnreachable, match="no b"):
        await (stream_of(run) if stream else run.produce_reply())


async def test_a_target_that_cannot_serve_the_request_is_not_asked() -> None:
    no_tools = replace(CAPABILITIES["openai_compatible"], tools=False)
    tools = [{"type": "function", "function": {"name": "f"}}]
    first, second = Upstream("a", no_tools), Upstream("b")
    await build_run(first, second, tools=tools).produce_reply()
    assert first.turn is None
    with pytest.raises(Unrepresentable, match="does not support tools"):
        build_run(Upstream("a", no_tools), Upstream("b", no_tools), tools=tools)


async def test_the_moments_of_a_request_with_one_target() -> None:
    watcher = Watcher()
    await stream_of(build_run(Upstream("a"), watcher=watcher, stream=True))
    assert watcher.moments == ["accepted chat mine True", "attempt 1 a", "head", "content", "end 2"]
