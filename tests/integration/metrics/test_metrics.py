"""`GET /metrics` of a real server: what it counts, who may read it, and that all workers are added up."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from bench.servers.processes import find_free_port
from tests.faults.client_view import RESPONSES, ask
from tests.faults.upstreams.test_attempts import rejected, shared
from tests.polling import read_until, wait_until
from tests.serving import command, serving
from tests.upstream.faults import ANSWERS, sound
from tests.upstream.script import Hang, Reply
from tests.upstream.server import ScriptedUpstream, closed_port

Json = dict[str, Any]
Values = dict[tuple[str, frozenset[tuple[str, str]]], float]

CONFIG: Json = {
    "providers": {"a": {"type": "scripted"}},
    "models": {"m": {"provider": "a"}, "p*": {"provider": "a"}},
}
KEYS: Json = {
    "keys": [
        {"name": "root", "key": "root-key-0123456789", "admin": True},
        {"name": "team", "key": "team-key-01234567"},
    ]
}


async def fetch(url: str, **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(verify=False, trust_env=False, timeout=60) as client:
        return await client.get(f"{url}/metrics", headers=headers)


async def send(url: str, **body: Any) -> httpx.Response:
    async with httpx.AsyncClient(verify=False, trust_env=False, timeout=60) as client:
        return await client.post(f"{url}/v1/responses", json={"model": "m", "input": "Hello", **body})


async def read_values(url: str, **headers: str) -> Values:
    text = (await fetch(url, **headers)).text
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in parse_text(text)
        for sample in family.samples
    }


def value_of(values: Values, name: str, **labels: str) -> float:
    """Returns the sum of all samples of a name with these labels, whatever their others are."""
    wanted = labels.items()
    return sum(value for (known, having), value in values.items() if known == name and wanted <= set(having))


async def test_requests_count_with_their_tokens_and_times() -> None:
    with serving(CONFIG) as running:
        for streams in (False, True):
            assert (await send(running.url, stream=streams)).status_code == 200
        values = await read_values(running.url)
    labels = {"model": "m", "upstream": "a"}
    assert value_of(values, "gateway_requests_total", route="/v1/responses", outcome="ok", **labels) == 2
    assert value_of(values, "gateway_request_seconds_count", model="m", stream="true") == 1
    assert value_of(values, "gateway_request_seconds_count", model="m", stream="false") == 1
    assert value_of(values, "gateway_first_content_seconds_count", **labels) == 1
    assert value_of(values, "gateway_output_interval_seconds_count", **labels) == 1
    assert value_of(values, "gateway_overhead_seconds_count", route="/v1/responses") == 2
    assert value_of(values, "gateway_overhead_seconds_sum") < value_of(values, "gateway_request_seconds_sum")
    assert value_of(values, "gateway_tokens_total", kind="output", **labels) > 0
    assert value_of(values, "gateway_attempts_total", result="ok", **labels) == 2
    assert value_of(values, "gateway_attempt_seconds_count", upstream="a", result="ok") == 2
    assert value_of(values, "gateway_in_flight", upstream="a") == 0
    assert value_of(values, "gateway_streams_open") == 0


@pytest.mark.parametrize(
    ("path", "body", "label"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}]}, "/v1/chat/completions"),
        ("/v1/messages", {"max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}, "/v1/messages"),
        ("/api/chat", {"messages": [{"role": "user", "content": "Hi"}], "stream": False}, "/api/chat"),
        (
            "/v1beta/models/m:generateContent",
            {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
            "/v1beta/models/{model}",
        ),
    ],
)
async def test_every_api_counts_by_the_template_of_its_path(path: str, body: Json, label: str) -> None:
    with serving(CONFIG) as running:
        async with httpx.AsyncClient(verify=False, trust_env=False, timeout=60) as client:
            named = body if ":" in path else {"model": "m", **body}
            assert (await client.post(f"{running.url}{path}", json=named)).status_code == 200
        values = await read_values(running.url)
    assert value_of(values, "gateway_requests_total", route=label, model="m", outcome="ok") == 1


async def test_labels_are_names_of_the_configuration() -> None:
    secret = "sk-of-a-client-0123456789"
    with serving(CONFIG) as running:
        await send(running.url, model="p-one", **{secret: 1})
        await send(running.url, model="p-two", top_k=3)
        await send(running.url, model=secret)
        text = (await fetch(running.url)).text
        values = await read_values(running.url)
    assert value_of(values, "gateway_requests_total", model="p*", outcome="ok") == 2
    assert value_of(values, "gateway_requests_total", model="other", outcome="client_error", upstream="none") == 1
    assert value_of(values, "gateway_losses_total", param="top_k") == 1
    assert value_of(values, "gateway_losses_total", param="other") == 1
    assert secret not in text
    assert "p-one" not in text


async def test_failures_have_outcomes_and_results() -> None:
    config = {
        "providers": {"gone": {"type": "openai_compatible", "base_url": f"http://127.0.0.1:{closed_port()}"}},
        "models": {"m": {"provider": "gone"}},
    }
    with serving(config) as running:
        for streams in (False, True):
            assert (await send(running.url, stream=streams)).status_code == 502
        await send(running.url, input=17)
        values = await read_values(running.url)
    labels = {"model": "m", "upstream": "gone"}
    assert value_of(values, "gateway_requests_total", outcome="upstream_error", **labels) == 2
    assert value_of(values, "gateway_attempts_total", result="unreachable", **labels) == 2
    assert value_of(values, "gateway_attempt_seconds_count", result="failed", upstream="gone") == 2
    assert value_of(values, "gateway_requests_total", outcome="client_error") == 1
    assert value_of(values, "gateway_in_flight") == 0


async def test_a_client_that_leaves_is_no_failure() -> None:
    answer = ANSWERS["chat"]
    async with ScriptedUpstream() as upstream:
        upstream.script(Reply(headers=answer.headers, body=[*answer.frames[:3], Hang()]))
        provider = {"type": "openai_compatible", "base_url": upstream.url}
        await leave({"providers": {"a": provider}, "models": {"m": {"provider": "a"}}})


async def leave(config: Json) -> None:
    """Leaves a stream that has begun, and waits until that was counted."""
    with serving(config) as running:
        async with httpx.AsyncClient(verify=False, trust_env=False, timeout=60) as client:
            body = {"model": "m", "input": "Hello you there", "stream": True}
            async with client.stream("POST", f"{running.v1}/responses", json=body) as reply:
                reads = reply.aiter_bytes()  # without a name it would be closed
                await anext(reads)
                async with httpx.AsyncClient(verify=False, trust_env=False, timeout=60) as other:
                    seen = (await other.get(f"{running.url}/metrics")).text
        assert "gateway_streams_open 1.0" in seen
        assert 'gateway_in_flight{upstream="a"} 1.0' in seen

        def has_left(values: Values) -> bool:
            requests = value_of(values, "gateway_requests_total", outcome="client_gone")
            return (requests, value_of(values, "gateway_streams_open")) == (1, 0)

        values = await read_until(lambda: read_values(running.url), has_left)
    assert value_of(values, "gateway_attempts_total", result="client_gone", model="m") == 1


async def test_shared_turns_count_their_attempts() -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(rejected(429, retry_after="30"))
        second.script(sound(ANSWERS["responses"]))
        config = shared(first.url, second.url)
        config["models"] = {"m": {**config["models"]["*"], "model": "scripted-model"}}
        with serving(config) as running:
            assert (await ask(running.v1, RESPONSES, stream=False, model="m")).status == 200
            values = await read_values(running.url)
    assert value_of(values, "gateway_attempts_total", model="m", upstream="first", result="rate_limited") == 1
    assert value_of(values, "gateway_attempts_total", model="m", upstream="second", result="ok") == 1
    assert value_of(values, "gateway_retries_total", model="m", kind="next") == 1
    assert value_of(values, "gateway_upstream_state", model="m", upstream="first") == 1
    assert value_of(values, "gateway_upstream_state", model="m", upstream="second") == 0
    assert value_of(values, "gateway_requests_total", model="m", upstream="second", outcome="ok") == 1


async def test_a_pattern_has_the_state_of_the_best_of_its_names() -> None:
    """Clients choose the names, so one that no upstream has must not look like an outage."""
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        config = shared(first.url, second.url, eject_max_s=60)
        with serving(config) as running:
            values = await read_values(running.url)
            states = {label: value for (name, label), value in values.items() if name == "gateway_upstream_state"}
            assert list(states.values()) == [0, 0]
            for name, script in (("unknown", rejected(404)), ("known", sound(ANSWERS["chat"]))):
                first.script(script)
                second.script(sound(ANSWERS["responses"]))
                assert (await ask(running.v1, RESPONSES, stream=False, model=name)).status == 200
            ejections = {"model": "*", "upstream": "first", "reason": "not_found"}

            async def is_counted() -> bool:
                return value_of(await read_values(running.url), "gateway_ejections_total", **ejections) == 1

            await wait_until(is_counted)  # the text is repeated for a second
            values = await read_values(running.url)
            assert value_of(values, "gateway_upstream_state", model="*", upstream="first") == 0
        first.script(rejected(404))
        second.script(sound(ANSWERS["responses"]))
        with serving(config) as running:
            assert (await ask(running.v1, RESPONSES, stream=False, model="unknown")).status == 200
            values = await read_values(running.url)
            assert value_of(values, "gateway_upstream_state", model="*", upstream="first") == 2
            assert value_of(values, "gateway_upstream_state", model="*", upstream="second") == 0


async def test_no_label_has_a_name_that_a_client_chose() -> None:
    """Two rows of one provider are told apart by their models; a row of a pattern has the pattern."""
    async with ScriptedUpstream() as upstream:
        config = shared(upstream.url, upstream.url)
        rows = [{"provider": "first"}, {"provider": "first", "model": "other"}]
        config["models"] = {"of-*": {"upstreams": rows, "balance": "weighted"}}
        upstream.script(*[sound(ANSWERS["chat"])] * 8)
        with serving(config) as running:
            for number in range(8):
                assert (await ask(running.v1, RESPONSES, stream=False, model=f"of-{number}")).status == 200
            values = await read_values(running.url)
    upstreams = {label for _, labels in values for name, label in labels if name == "upstream"}
    assert upstreams <= {"first:of-*", "first:other", "first", "second"}
    assert value_of(values, "gateway_requests_total", model="of-*") == 8


async def test_the_store_is_measured(tmp_path: Path) -> None:
    config = {**CONFIG, "store": {"url": f"sqlite+aiosqlite:///{tmp_path}/store.sqlite"}}
    with serving(config) as running:
        stored = (await send(running.url)).json()
        async with httpx.AsyncClient(verify=False, trust_env=False, timeout=60) as client:
            assert (await client.get(f"{running.v1}/responses/{stored['id']}")).status_code == 200
        values = await read_values(running.url)
    assert value_of(values, "gateway_store_seconds_count", op="write") > 0
    assert value_of(values, "gateway_store_seconds_count", op="read") > 0


@pytest.mark.parametrize(("key", "status"), [(None, 401), ("nobody", 401), ("team-key-01234567", 403)])
async def test_with_keys_only_administrators_read_it(key: str | None, status: int) -> None:
    with serving({**CONFIG, "auth": KEYS}) as running:
        refused = await fetch(running.url, **({} if key is None else {"authorization": f"Bearer {key}"}))
        allowed = await fetch(running.url, authorization="Bearer root-key-0123456789")
    assert refused.status_code == status
    assert refused.json()["error"]["message"]
    assert allowed.status_code == 200


async def test_the_format_is_the_one_that_is_asked_for() -> None:
    with serving(CONFIG) as running:
        await send(running.url)
        plain = await fetch(running.url)
        asked = await fetch(running.url, accept="application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
        async with httpx.AsyncClient(verify=False, trust_env=False, timeout=60) as client:
            head = await client.head(f"{running.url}/metrics")
            posted = await client.post(f"{running.url}/metrics")
    assert plain.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert asked.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert asked.text.endswith("# EOF\n")
    names = {family.name for family in parse_openmetrics(asked.text)}
    assert "gateway_requests" in names
    assert "_created" not in plain.text + asked.text
    assert (head.status_code, head.content) == (200, b"")
    assert (posted.status_code, posted.headers["allow"]) == (405, "GET, HEAD")


async def test_it_is_neither_logged_nor_counted(tmp_path: Path) -> None:
    with command({**CONFIG, "store": {"url": None}}, tmp_path) as running:
        for _ in range(3):
            assert (await fetch(running.url)).status_code == 200
        await send(running.url)
        await wait_until(lambda: '"path":"/v1/responses"' in running.read_log())
        values = await read_values(running.url)
        log = running.read_log()
    assert "/metrics" not in log
    assert value_of(values, "gateway_requests_total") <= 1


async def test_a_page_of_another_site_cannot_read_it() -> None:
    with serving(CONFIG) as running:
        refused = await fetch(running.url, host="evil.example")
    assert refused.status_code == 421
    assert "gateway_" not in refused.text


async def test_all_workers_are_added_up_on_the_own_listener(tmp_path: Path) -> None:
    port = find_free_port()
    own = f"http://127.0.0.1:{port}"
    config = {
        **CONFIG,
        "store": {"url": None},
        "server": {"workers": 2},
        "auth": KEYS,
        "metrics": {"listen": f"127.0.0.1:{port}"},
    }
    with command(config, tmp_path) as running:
        async with httpx.AsyncClient(
            trust_env=False, headers={"authorization": "Bearer team-key-01234567"}, timeout=60
        ) as client:
            replies = await asyncio.gather(
                *(client.post(f"{running.v1}/responses", json={"model": "m", "input": "Hi"}) for _ in range(20))
            )
            main = await client.get(f"{running.url}/metrics")
        assert [reply.status_code for reply in replies] == [200] * 20
        assert main.status_code == 404

        def is_complete(values: Values) -> bool:
            both = value_of(values, "gateway_workers") == 2
            return both and value_of(values, "gateway_requests_total", outcome="ok") == 20

        values = await read_until(lambda: read_values(own), is_complete)
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            assert (await client.get(f"{own}/v1/models")).status_code == 404
    assert value_of(values, "gateway_build_info") == 1
    assert value_of(values, "gateway_draining") == 0


async def test_idle_connections_of_the_own_listener_stay_open_as_those_of_the_server(tmp_path: Path) -> None:
    port = find_free_port()
    config = {
        **CONFIG,
        "store": {"url": None},
        "server": {"idle_s": 3600},
        "metrics": {"listen": f"127.0.0.1:{port}"},
    }
    with command(config, tmp_path) as running:
        connections = [await asyncio.open_connection("127.0.0.1", each) for each in (port, httpx.URL(running.url).port)]
        for _, writer in connections:
            writer.write(b"GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        for reader, _ in connections:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            await reader.readexactly(int(head.split(b"content-length: ")[1].split(b"\r\n")[0]))
        # uvicorn's own rule is to close them after 5 s.
        ends = [asyncio.ensure_future(reader.read(1)) for reader, _ in connections]
        closed, open_ = await asyncio.wait(ends, timeout=6.0)
        assert (len(closed), len(open_)) == (0, 2)
        for end, (_, writer) in zip(ends, connections, strict=True):
            end.cancel()
            writer.close()


async def test_gauges_forget_what_has_left_the_configuration(tmp_path: Path) -> None:
    gauges = ("gateway_in_flight", "gateway_queued", "gateway_upstream_state")
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(sound(ANSWERS["chat"]))
        config = {**shared(first.url, second.url), "store": {"url": None}}
        config["models"] = {"kept": config["models"]["*"], "gone": {"upstreams": [{"provider": "a"}]}}
        config["providers"]["a"] = {"type": "openai_compatible", "base_url": second.url}
        with command(config, tmp_path, forked=True) as running:
            await send(running.url, model="kept")
            before = await read_values(running.url)
            del config["models"]["gone"], config["providers"]["a"]
            (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
            running.process.send_signal(signal.SIGHUP)
            gone = {("model", "gone"), ("upstream", "a")}
            after = await read_until(
                lambda: read_values(running.url),
                lambda values: not any(name in gauges and gone & labels for name, labels in values),
            )
    assert {name for name, labels in before if gone & labels} >= {*gauges}
    assert value_of(after, "gateway_in_flight", upstream="first") == 0
    assert ("gateway_queued", frozenset({("model", "kept")})) in after
    assert value_of(after, "gateway_attempts_total", model="kept") == 1


async def test_without_metrics_there_is_nothing(tmp_path: Path) -> None:
    with serving({**CONFIG, "metrics": {"enabled": False}}) as running:
        assert (await send(running.url)).status_code == 200
        assert (await fetch(running.url)).status_code == 404
