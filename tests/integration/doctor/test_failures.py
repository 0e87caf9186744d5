"""`responses-gateway doctor` with a failing upstream, a full disk, or an interrupt."""

import asyncio
import signal
import sys
from collections.abc import Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.doctor.test_doctor import doctor
from tests.upstream import Reply, Script, ScriptedUpstream, error_reply, no_http, silence

pytestmark = pytest.mark.timeout(180)

KEY = "sk-of-the-upstream-0123456789"


@asynccontextmanager
async def upstream_that(answers: Script):
    """A configuration of one model, whose upstream is this; and the upstream."""
    async with ScriptedUpstream() as upstream:
        upstream.script(answers)
        provider = {"type": "openai_compatible", "base_url": upstream.url, "api_key": KEY, "retries": 0}
        yield {"providers": {"p": provider}, "models": {"m": {"provider": "p"}}}, upstream


async def examined(config: Mapping[str, Any], folder: Path, *arguments: str):
    return await asyncio.to_thread(doctor, config, folder, *arguments)


async def test_a_silent_upstream_is_abandoned_after_one_request(tmp_path: Path) -> None:
    async with upstream_that(silence) as (config, upstream):
        done = await examined(config, tmp_path, "--timeout", "5")
        assert "fail Text: the reply did not end within 5 s" in done.stdout
        assert "--timeout" in done.stdout
        assert "skipped 32 features: the check Text got no reply" in done.stdout
        assert (done.returncode, len(upstream.requests)) == (1, 1)


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (no_http, "fail Text: 502 upstream_garbled"),
        (Reply(headers={"content-type": "text/html"}, body=b"<h1>Welcome</h1>"), "fail Text: 502 upstream_garbled"),
    ],
    ids=["no HTTP", "a page"],
)
async def test_an_upstream_with_another_protocol_is_reported_as_such(
    answers: Script, words: str, tmp_path: Path
) -> None:
    async with upstream_that(answers) as (config, _):
        done = await examined(config, tmp_path)
    assert words in done.stdout
    assert done.returncode == 1


async def test_no_key_and_no_address_of_an_upstream_is_reported(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    async with ScriptedUpstream() as upstream:
        words = f"Incorrect key {KEY} at {upstream.url}"
        upstream.script(error_reply(418, words))
        provider = {"type": "openai_compatible", "base_url": upstream.url, "api_key": KEY, "retries": 0}
        config = {"providers": {"p": provider}, "models": {"m": {"provider": "p"}}}
        told = await examined(config, tmp_path, "--html", str(page))
        plain = await examined(config, tmp_path, "--json")
    for said in (told.stdout, told.stderr, plain.stdout, plain.stderr, page.read_text()):
        assert KEY not in said
        assert str(upstream.port) not in said
    assert "Incorrect key" in plain.stdout


async def test_results_are_printed_even_if_the_page_cannot_be_written(tmp_path: Path) -> None:
    config = {"providers": {"p": {"type": "scripted"}}, "models": {"m": {"provider": "p"}}}
    done = await examined(config, tmp_path, "--html", "/dev/full")
    assert "27 passed" in done.stdout
    assert done.stderr == "/dev/full cannot be written: No space left on device\n"
    assert done.returncode == 1


async def test_the_doctor_stops_at_once_when_interrupted(tmp_path: Path) -> None:
    async with upstream_that(silence) as (config, upstream):
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
        command = [str(Path(sys.executable).with_name("responses-gateway")), "doctor", "--html", "page.html"]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe, cwd=tmp_path)
        async with asyncio.timeout(60):
            request = await wait_for_upstream_request(upstream, process)
            process.send_signal(signal.SIGINT)
            output, logged = await process.communicate()
            await request.closed
    assert (process.returncode, output, logged) == (130, b"", b"")
    assert not (tmp_path / "page.html").exists()


async def wait_for_upstream_request(upstream: ScriptedUpstream, process: asyncio.subprocess.Process):
    """Returns the first request. If the process ends before it, fails with its output."""
    ended = asyncio.create_task(process.wait())
    while not ended.done():
        with suppress(TimeoutError):  # a busy machine takes its time to start a process
            request = await upstream.received(1)
            ended.cancel()
            return request
    raise AssertionError(await process.communicate())
