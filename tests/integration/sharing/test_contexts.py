"""Token counts and compaction of a name with several upstreams: any of them may serve them, and failures move on."""

from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.faults.client_view import client
from tests.faults.upstreams.test_attempts import rejected, shared
from tests.polling import wait_until
from tests.serving import serving
from tests.upstream.faults import ANSWERS, sound
from tests.upstream.ollama import ollama_error, ollama_shown, ollama_text
from tests.upstream.server import ScriptedUpstream, closed_port

Json = dict[str, Any]
MESSAGES = [{"role": "user", "content": "Hi"}]
REQUESTS: dict[str, tuple[str, Json]] = {
    "input tokens": ("/responses/input_tokens", {"input": "Hi"}),
    "count tokens": ("/messages/count_tokens", {"messages": MESSAGES}),
    "compaction": ("/responses/compact", {"input": [{"role": "user", "content": f"Message {n}"} for n in range(40)]}),
}


async def post(url: str, path: str, body: Json) -> httpx.Response:
    async with client() as asking:
        return await asking.post(f"{url}{path}", json={"model": "scripted-model", **body})


def configure(first: str, second: str) -> Json:
    config = shared(first, second)
    for provider in config["providers"].values():
        provider |= {"dialects": ["chat"], "capabilities": {"counting": "turn"}}
    return config


@pytest.mark.parametrize(("path", "body"), REQUESTS.values(), ids=REQUESTS)
async def test_the_next_upstream_is_asked_after_a_failure(path: str, body: Json) -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(rejected(503))
        second.script(sound(ANSWERS["chat"]))
        with serving(configure(first.url, second.url)) as running:
            reply = await post(running.v1, path, body)
    assert second.requests, reply.text
    assert len(first.requests) == 1


@pytest.mark.parametrize("status", [401, 404, 429, 503])
async def test_failures_to_count_tokens_say_nothing_of_health(status: int) -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(rejected(status))
        second.script(sound(ANSWERS["chat"]))
        with serving(configure(first.url, second.url)) as running:
            for _ in range(6):
                await post(running.v1, *REQUESTS["count tokens"])
            async with client() as asking:
                report = (await asking.get(f"{running.v1}/gateway/routes/scripted-model")).json()
    assert [row["state"] for row in report["upstreams"]] == ["available", "available"]
    assert len(first.requests) == 6


async def test_an_upstream_that_cannot_count_is_passed_over() -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        second.script(sound(ANSWERS["chat"]))
        config = configure(first.url, second.url)
        config["providers"]["first"]["capabilities"] = {"counting": "none"}
        with serving(config) as running:
            await post(running.v1, *REQUESTS["count tokens"])
            config["providers"]["second"]["capabilities"] = {"counting": "none"}
        assert second.requests
        with serving(config) as running:
            reply = await post(running.v1, *REQUESTS["count tokens"])
    assert reply.status_code == 404
    assert not first.requests


TOLD = [{"role": "user", "content": "I am Ada."}, {"role": "user", "content": "Who am I?"}]


class Context(NamedTuple):
    """The windows that two servers report, whether the first one fails, and whether the answer follows a compaction."""

    first: int | None
    second: int | None
    first_fails: bool
    is_compacted: bool


CONTEXTS: dict[str, Context] = {
    "the smaller window answers": Context(100_000, 8, True, True),
    "the larger window answers": Context(8, 100_000, True, False),
    "the first answers": Context(8, 100_000, False, True),
    "the first answers, and its window is the larger one": Context(100_000, 8, False, False),
    "the window of the first is not known": Context(None, 8, False, True),
}


async def await_end(url: str, response: Json) -> Json:
    ended: list[Json] = [response]

    async def has_ended() -> bool:
        async with client() as asking:
            ended.append((await asking.get(f"{url}/responses/{response['id']}")).json())
        return ended[-1]["status"] not in ("queued", "in_progress")

    await wait_until(has_ended)
    return ended[-1]


@pytest.mark.parametrize("background", [False, True], ids=["at once", "in the background"])
@pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS)
async def test_a_context_is_compacted_by_the_window_of_the_upstream_that_answers(
    context: Context, background: bool, tmp_path: Path
) -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        for server, window in ((first, context.first), (second, context.second)):
            shown = ollama_shown("completion", **({} if window is None else {"num_ctx": window}))
            server.on("/api/show", shown)
            server.on("/api/chat", ollama_text("Hello"))
        if context.first_fails:
            first.on("/api/chat", ollama_error(503, "busy"))
        with serving(configure_ollama(first.url, second.url, tmp_path)) as running:
            body = {"input": TOLD, "context_management": [{"type": "compaction"}], "background": background}
            reply = await post(running.v1, "/responses", body)
            assert reply.status_code == 200, reply.text
            response = await await_end(running.v1, reply.json()) if background else reply.json()
    kinds = ["compaction", "message"] if context.is_compacted else ["message"]
    assert [item["type"] for item in response["output"]] == kinds


def configure_ollama(first: str, second: str, tmp_path: Path) -> Json:
    config = shared(first, second)
    for provider, url in zip(config["providers"].values(), (first, second), strict=True):
        provider.update({"type": "ollama", "base_url": url.removesuffix("/v1"), "silence_s": 30, "answer_s": 30})
        del provider["dialects"]
    config["store"] = {"url": f"sqlite+aiosqlite:///{tmp_path}/state.db"}
    return config


async def test_contexts_of_unknown_windows_are_not_compacted_by_anybody(tmp_path: Path) -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        for server in (first, second):
            server.on("/api/show", ollama_shown("completion"))
        body = {"input": TOLD, "context_management": [{"type": "compaction"}]}
        with serving(configure_ollama(first.url, second.url, tmp_path)) as running:
            reply = await post(running.v1, "/responses", body)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "context_management[0].compact_threshold")


async def test_an_upstream_that_is_down_does_not_keep_others_from_compacting(tmp_path: Path) -> None:
    async with ScriptedUpstream() as second:
        second.on("/api/show", ollama_shown("completion", num_ctx=8))
        second.on("/api/chat", ollama_text("Hello"))
        body = {"input": TOLD, "context_management": [{"type": "compaction"}]}
        with serving(configure_ollama(f"http://127.0.0.1:{closed_port()}/v1", second.url, tmp_path)) as running:
            reply = await post(running.v1, "/responses", body)
    assert [item["type"] for item in reply.json()["output"]] == ["compaction", "message"]
