"""providers/llamacpp/process.py, with programs of a few lines in the place of llama.cpp."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from providers.config import ProviderConfig
from providers.errors import EngineUnavailable
from providers.llamacpp import process
from providers.llamacpp.process import run_engine_process

pytestmark = pytest.mark.anyio

CONFIG = ProviderConfig(type="llamacpp", model="/secret/place/tiny.gguf", engine={"n_ctx": 512})
SERVES = "import sys, time; asked = sys.stdin.readline(); print('http://127.0.0.1:1', flush=True); "
HANGS = "time.sleep(600)"
"""A program that only a signal ends; on its own it ends in case a test that fails leaves it behind."""


def instead(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(process, "CHILD_COMMAND", (sys.executable, "-c", program))


async def read_start_failure() -> str:
    with pytest.raises(EngineUnavailable) as raised:
        async with asyncio.timeout(60), run_engine_process("tiny", CONFIG, lambda doing: None):
            raise AssertionError("it started")
    assert raised.value.provider == "tiny"
    return str(raised.value)


NO_START: dict[str, tuple[str, str]] = {
    "its first error is the reason": (
        "import sys; sys.exit('0.01 I loading\\n0.02 E load: no memory\\n0.03 E init: exiting\\nRuntimeError: failed')",
        "load: no memory (exit code 1)",
    ),
    "else its last words": ("import sys; sys.exit('one\\ntwo')", "two (exit code 1)"),
    "or nothing but its end": ("import os; os._exit(3)", "exit code 3"),
    "an end by signal is named": ("import os; os.abort()", "killed by SIGABRT"),
    "an abort has its reason": (
        "import os, sys; sys.stderr.write('0.1 E ggml: out of memory\\n'); sys.stderr.flush(); os.abort()",
        "ggml: out of memory (killed by SIGABRT)",
    ),
    "no place on the disk is told": (
        "import sys; sys.exit('cannot read /secret/place/tiny.gguf')",
        "cannot read tiny.gguf (exit code 1)",
    ),
    "lines without end do no harm": (
        "import sys; sys.stderr.write('x' * 300_000 + '\\n'); sys.exit('too much')",
        "too much (exit code 1)",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("program", "reason"), NO_START.values(), ids=NO_START)
async def test_a_process_that_ends_during_its_start_reports_the_reason(
    program: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    instead(monkeypatch, program)
    assert await read_start_failure() == reason


async def test_an_endless_start_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    instead(monkeypatch, "import time; " + HANGS)
    monkeypatch.setattr(process, "_START_TIMEOUT_S", 0.2)
    assert await read_start_failure() == "it was not ready within 0.2 s"


async def test_without_the_library_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "is_xllamacpp_installed", lambda: False)
    assert 'pip install "responses-gateway[llamacpp]"' in await read_start_failure()


async def test_the_process_gets_its_model_and_a_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told = tmp_path / "told"
    instead(monkeypatch, SERVES + f"open({str(told)!r}, 'a').write(asked); " + HANGS)
    keys = set()
    doing: list[str] = []
    for _ in range(2):
        async with asyncio.timeout(60), run_engine_process("tiny", CONFIG, doing.append) as started:
            assert started.url == "http://127.0.0.1:1"
            keys.add(started.key)
    assert doing == ["loading tiny.gguf"] * 2
    assert len(keys) == 2


async def test_the_death_of_the_process_is_reported_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    instead(monkeypatch, SERVES + "sys.exit('0.5 E decode: device lost')")
    async with asyncio.timeout(60), run_engine_process("tiny", CONFIG, lambda doing: None) as started:
        assert await started.wait_until_dead() == "decode: device lost (exit code 1)"


@pytest.mark.parametrize("deaf", ["", "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "])
async def test_the_process_has_ended_after_the_block(
    deaf: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(process, "_STOP_TIMEOUT_S", 0.2)
    pid_file = tmp_path / "pid"
    write_pid = f"import os; open({str(pid_file)!r}, 'w').write(str(os.getpid())); "
    instead(monkeypatch, deaf + write_pid + SERVES + HANGS)
    async with asyncio.timeout(60), run_engine_process("tiny", CONFIG, lambda doing: None):
        pid = int(pid_file.read_text())
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc that shows an ending process")
async def test_a_killed_process_is_dead_when_its_connections_close(monkeypatch: pytest.MonkeyPatch) -> None:
    listen = "import socket; server = socket.create_server(('127.0.0.1', 0)); "
    serve = "print('http://127.0.0.1:%d' % server.getsockname()[1], flush=True); connection, _ = server.accept(); "
    program = f"import os, sys, time; sys.stdin.readline(); {listen}{serve}"
    instead(monkeypatch, program + "connection.sendall(str(os.getpid()).encode()); " + HANGS)
    async with asyncio.timeout(60), run_engine_process("tiny", CONFIG, lambda doing: None) as started:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(started.url.rpartition(":")[2]))
        pid = int(await reader.read(10))
        assert not started.is_dead()
        os.kill(pid, signal.SIGKILL)
        assert not await reader.read()
        assert started.is_dead()
        writer.close()
