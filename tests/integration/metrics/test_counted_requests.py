"""What counts as one request: turns over a WebSocket, jobs, replies that break. Each round of tools is an attempt."""

from pathlib import Path
from typing import Any

import pytest

from tests.faults.client_view import CHAT, MESSAGES, RESPONSES, client, question
from tests.integration.file_search.file_gateway import place_state
from tests.integration.metrics.test_metrics import read_values, value_of
from tests.integration.requests import traffic
from tests.serving import serving
from tests.upstream.builders import chat_text
from tests.upstream.faults import ANSWERS
from tests.upstream.script import Close, Reply, Reset, Script
from tests.upstream.server import ScriptedUpstream


async def test_turns_over_a_websocket_are_requests(tmp_path: Path) -> None:
    async with traffic.serving_site(tmp_path, auth=None) as site:
        await traffic.talk(site)
        values = await read_values(site.gateway.url)
    asked = {"route": "/v1/responses", "model": "one", "upstream": "first"}
    assert value_of(values, "gateway_requests_total", outcome="ok", **asked) == 1
    assert value_of(values, "gateway_requests_total", outcome="client_error", route="/v1/responses", model="other") == 1
    assert value_of(values, "gateway_requests_total") == 2
    assert value_of(values, "gateway_streams_open") == 0
    assert value_of(values, "gateway_overhead_seconds_count", route="/v1/responses") == 1


async def test_a_background_job_is_one_request_at_its_end(tmp_path: Path) -> None:
    async with traffic.serving_site(tmp_path, auth=None) as site:
        await traffic.run_jobs(site)
        values = await read_values(site.gateway.url)
    asked = {"route": "/v1/responses", "model": "one", "upstream": "first"}
    assert value_of(values, "gateway_requests_total", outcome="ok", **asked) == 2
    assert value_of(values, "gateway_requests_total", outcome="upstream_error", **asked) == 1
    assert value_of(values, "gateway_requests_total") == 3
    assert value_of(values, "gateway_attempts_total", upstream="first") == 3
    assert value_of(values, "gateway_tokens_total", kind="reasoning") == 6
    assert value_of(values, "gateway_streams_open") == 0
    assert value_of(values, "gateway_in_flight") == 0


async def test_each_round_of_tools_is_an_attempt(tmp_path: Path) -> None:
    async with traffic.serving_site(tmp_path, auth=None) as site:
        await traffic.ask_with_tools(site)
        values = await read_values(site.gateway.url)
    assert value_of(values, "gateway_attempts_total", model="one", upstream="first", result="ok") == 3
    assert value_of(values, "gateway_attempts_total", model="both", upstream="second", result="ok") == 2
    assert value_of(values, "gateway_attempts_total", model="both", upstream="gone", result="unreachable") >= 1
    assert value_of(values, "gateway_requests_total", outcome="ok") == 3
    assert value_of(values, "gateway_in_flight") == 0


@pytest.mark.parametrize("model", ["one", "both"])
@pytest.mark.parametrize("background", [False, True], ids=["waiting", "background"])
async def test_a_request_that_is_planned_again_for_its_files_is_one(
    model: str, background: bool, tmp_path: Path
) -> None:
    async with ScriptedUpstream() as upstream, client() as http:
        upstream.on("/chat/completions", chat_text("Hi"))
        provider = {"type": "openai_compatible", "base_url": upstream.url}
        config = {
            **place_state(tmp_path),
            "providers": {"first": provider, "second": provider},
            "models": {
                "one": {"provider": "first"},
                "both": {"upstreams": [{"provider": "first"}, {"provider": "second"}]},
            },
        }
        with serving(config) as gateway:
            file = {"file": ("a.txt", b"A cat sleeps.")}
            stored = await http.post(f"{gateway.v1}/files", data={"purpose": "user_data"}, files=file)
            content = [{"type": "input_file", "file_id": stored.json()["id"]}]
            body = {"model": model, "stream": True, "background": background}
            body["input"] = [{"role": "user", "content": content}]
            reply = await http.post(f"{gateway.v1}/responses", json=body)
            assert "response.completed" in reply.text
            values = await read_values(gateway.url)
    asked = {"route": "/v1/responses", "model": model}
    assert value_of(values, "gateway_requests_total", outcome="ok", **asked) == 1
    assert value_of(values, "gateway_requests_total", **asked) == 1
    assert value_of(values, "gateway_attempts_total", result="ok", model=model) == 1
    assert value_of(values, "gateway_request_seconds_count", model=model) == 1
    assert value_of(values, "gateway_first_content_seconds_count", model=model) == 1
    assert value_of(values, "gateway_streams_open") == 0


def breaking(dialect: str, kind: str) -> Script:
    """Returns a stream that breaks after its first content."""
    answer = ANSWERS[dialect]
    ends: dict[str, list[Any]] = {"closed": [], "cut": [Close()], "reset": [Reset()], "error": [answer.error]}
    return Reply(headers=answer.headers, body=[answer.opening, *ends[kind]])


@pytest.mark.parametrize("kind", ["closed", "cut", "reset", "error"])
@pytest.mark.parametrize(("path", "dialect"), [(CHAT, "chat"), (RESPONSES, "responses"), (MESSAGES, "anthropic")])
async def test_a_relayed_stream_that_breaks_has_failed(path: str, dialect: str, kind: str) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(breaking(dialect, kind))
        dialects = ["messages" if dialect == "anthropic" else dialect]
        provider = {"type": "openai_compatible", "base_url": upstream.url, "dialects": dialects, "retries": 0}
        config = {"providers": {"a": provider}, "models": {"m": {"provider": "a"}}}
        with serving(config) as running:
            async with client() as asking:
                body = question(path, stream=True, model="m")
                assert (await asking.post(f"{running.v1}{path}", json=body)).status_code == 200
            values = await read_values(running.url)
    outcome = "limited" if kind == "error" else "upstream_error"
    assert value_of(values, "gateway_requests_total", model="m", upstream="a", outcome=outcome) == 1
    assert value_of(values, "gateway_requests_total") == 1
    assert value_of(values, "gateway_attempts_total", upstream="a", result="cut") == 1
    assert value_of(values, "gateway_attempts_total") == 1
