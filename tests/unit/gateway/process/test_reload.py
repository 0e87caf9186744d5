"""SIGHUP loads the configuration again: all of it or nothing, for new requests only. The server is a process."""

import asyncio
import os
import signal
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.faults.client_view import CHAT, question
from tests.faults.connection import connected
from tests.polling import wait_until
from tests.processes import needs_proc, worker_pids
from tests.serving import READY_S, Command, be_patient, command
from tests.upstream import Pause, Reply, ScriptedUpstream
from tests.upstream.builders import SSE
from tests.upstream.faults import CHAT as CHAT_ANSWER
from tests.websocket_client import talking

FIRST_KEY, SECOND_KEY = "first-key-of-a-team", "second-key-of-a-team"


def settings(*models: str, key: str | None = None, **more: Any) -> dict[str, Any]:
    """A configuration of scripted models, for one key or for everybody."""
    auth = {"auth": {"keys": [{"name": "team", "key": key}]}} if key else {}
    return {
        "server": {"drain_s": 1},
        "store": {"url": None},
        "providers": {"scripted": {"type": "scripted"}},
        "models": {name: {"provider": "scripted"} for name in models},
        **auth,
        **more,
    }


def before(url: str, models: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration of models in front of an upstream."""
    upstream = {"type": "openai_compatible", "base_url": url, "retries": 0}
    return {
        "server": {"drain_s": 0.2},
        "store": {"url": None},
        "providers": {"upstream": upstream},
        "models": {name: {"provider": "upstream", **model} for name, model in models.items()},
    }


def reload(server: Command, config: Mapping[str, Any] | str) -> None:
    file = server.log.with_name("config.yaml")
    file.write_text(config if isinstance(config, str) else yaml.safe_dump(be_patient(config)))
    server.process.send_signal(signal.SIGHUP)


def get(url: str, key: str | None = None) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return httpx.get(url, headers=headers, verify=False, trust_env=False, timeout=READY_S)


def logged(server: Command, message: str, times: int) -> bool:
    return server.read_log().count(message) == times


def models_of(server: Command) -> list[str]:
    return [model["id"] for model in get(f"{server.v1}/models").json()["data"]]


@pytest.mark.parametrize("workers", ["1", "2"], ids=["one worker", "two workers"])
async def test_models_and_keys_change_while_the_server_runs(workers: str, tmp_path: Path) -> None:
    with command(settings("old", key=FIRST_KEY), tmp_path, "--workers", workers, forked=True) as server:
        assert get(f"{server.v1}/models", FIRST_KEY).status_code == 200
        reload(server, settings("new", key=SECOND_KEY))
        await wait_until(lambda: server.read_log().count("configuration_reloaded") == int(workers))
        for _ in range(8):  # each connection may reach either worker
            assert get(f"{server.v1}/models", FIRST_KEY).status_code == 401
            assert [model["id"] for model in get(f"{server.v1}/models", SECOND_KEY).json()["data"]] == ["new"]


@pytest.mark.parametrize("workers", ["1", "2"], ids=["one worker", "two workers"])
async def test_a_configuration_with_a_mistake_changes_nothing_and_readyz_reports_it(
    workers: str, tmp_path: Path
) -> None:
    with command(settings("old"), tmp_path, "--workers", workers, forked=True) as server:
        reload(server, settings("new", models={"new": {"provider": "secret-name"}}))
        await wait_until(lambda: get(f"{server.url}/readyz").json()["status"] == "degraded")
        await wait_until(lambda: server.read_log().count("configuration_rejected") == int(workers))
        for _ in range(4):
            reply = get(f"{server.url}/readyz")
            report = reply.json()["degraded"]["configuration"]
            assert reply.status_code == 200, "the old configuration still serves"
            assert "config.yaml:" in report
            assert "models.new.provider" in report
            assert "secret-name" not in report, "everybody may read it: values stay in the log"
            assert models_of(server) == ["old"]
        assert "there is no provider 'secret-name'" in server.read_log()

        reload(server, settings("new"))
        await wait_until(lambda: server.read_log().count("configuration_reloaded") == int(workers))
        assert get(f"{server.url}/readyz").json() == {"status": "ready"}
        assert models_of(server) == ["new"]


async def test_a_removed_key_starts_no_turn_on_its_open_websocket(tmp_path: Path) -> None:
    headers = {"authorization": f"Bearer {FIRST_KEY}"}
    with command(settings("old", key=FIRST_KEY), tmp_path, forked=True) as server:
        async with talking(server.v1, additional_headers=headers) as talk:
            assert (await talk.turn(model="old", input="Hi"))[-1]["type"] == "response.completed"
            reload(server, settings("old", key=SECOND_KEY))
            await wait_until(lambda: "configuration_reloaded" in server.read_log())
            (refusal,) = await talk.turn(model="old", input="Hi")
            assert (refusal["type"], refusal["status"]) == ("error", 401)


async def test_a_missing_or_malformed_file_changes_nothing(tmp_path: Path) -> None:
    with command(settings("old"), tmp_path, forked=True) as server:
        reload(server, "models: [")
        await wait_until(lambda: "not YAML" in server.read_log())
        (tmp_path / "config.yaml").unlink()
        server.process.send_signal(signal.SIGHUP)
        await wait_until(lambda: "cannot be read" in server.read_log())
        assert models_of(server) == ["old"]
        assert get(f"{server.url}/readyz").json()["status"] == "degraded"


async def test_settings_that_need_a_restart_are_refused_by_name(tmp_path: Path) -> None:
    with command(settings("old"), tmp_path, forked=True) as server:
        reload(server, settings("new", server={"drain_s": 2}))
        await wait_until(lambda: "configuration_rejected" in server.read_log())
        assert "server.drain_s: cannot change while the server runs" in server.read_log()
        assert models_of(server) == ["old"], "the models did not change alone"


async def test_options_of_the_command_line_still_hold(tmp_path: Path) -> None:
    """The port of the file is not the one that was bound: `--port` overrides it each time."""
    with command(settings("old", server={"drain_s": 1, "port": 9}), tmp_path, forked=True) as server:
        reload(server, settings("new", server={"drain_s": 1, "port": 9}))
        await wait_until(lambda: models_of(server) == ["new"])


async def test_a_stream_keeps_its_provider_and_the_provider_ends_with_it(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    rest = CHAT_ANSWER.stream.removeprefix(CHAT_ANSWER.opening)
    async with ScriptedUpstream() as old, ScriptedUpstream() as new:
        old.script(Reply(headers=SSE, body=[CHAT_ANSWER.opening, Pause(go_on), rest]))
        new.script(Reply(headers=SSE, body=[CHAT_ANSWER.stream]))
        with command(before(old.url, {"scripted-model": {}}), tmp_path, forked=True) as server:
            async with connected(server.v1) as first, connected(server.v1) as second:
                first.post(CHAT, question(CHAT, stream=True))
                assert await first.status() == 200
                await first.read_to(b"upstream")

                reload(server, before(new.url, {"scripted-model": {}}))
                await wait_until(lambda: "configuration_reloaded" in server.read_log())
                second.post(CHAT, question(CHAT, stream=True))
                assert await second.status() == 200
                await second.read_to(b"data: [DONE]\n\n")
                assert len(new.requests) == 1
                assert "provider_closed" not in server.read_log()

                go_on.set()
                assert b'"finish_reason":"stop"' in await first.read_to(b"data: [DONE]\n\n")
                await wait_until(lambda: "provider_closed" in server.read_log())


async def test_a_provider_that_did_not_change_keeps_its_connections(tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream:
        for _ in range(2):
            upstream.script(Reply(headers=SSE, body=[CHAT_ANSWER.stream]))
        with command(before(upstream.url, {"scripted-model": {}}), tmp_path, forked=True) as server:
            configured: list[dict[str, Any]] = [{"scripted-model": {}, "further": {}}, {"scripted-model": {}}]
            for times, models in enumerate(configured, 1):
                async with connected(server.v1) as client:
                    client.post(CHAT, question(CHAT, stream=True))
                    await client.read_to(b"data: [DONE]\n\n")
                reload(server, before(upstream.url, models))
                await wait_until(partial(logged, server, "configuration_reloaded", times))
            assert "provider_closed" not in server.read_log()


@needs_proc
async def test_a_worker_that_replaces_a_dead_one_has_the_new_configuration(tmp_path: Path) -> None:
    with command(settings("old"), tmp_path, "--workers", "2", forked=True) as server:
        reload(server, settings("new"))
        await wait_until(lambda: server.read_log().count("configuration_reloaded") == 2)
        for worker in worker_pids(server.process.pid):
            os.kill(worker, signal.SIGKILL)
        await wait_until(lambda: server.read_log().count("worker_died") == 2)
        assert models_of(server) == ["new"]
