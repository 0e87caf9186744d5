"""providers/vllm_inprocess/reaper.py: ends the processes of a gateway that was killed."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from providers.vllm_inprocess.reaper import start_reaper

SOON_S = 60.0


@pytest.fixture
def engine() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]) as process:
        yield process
        process.kill()


def test_processes_are_ended_with_the_starter_of_the_reaper(engine: "subprocess.Popen[bytes]") -> None:
    program = (
        "import os, sys; from providers.vllm_inprocess.reaper import start_reaper; start_reaper([int(sys.argv[1])]); "
        "sys.stdin.readline(); os._exit(9)"
    )
    starting = [sys.executable, "-c", program, str(engine.pid)]
    with subprocess.Popen(starting, stdin=subprocess.PIPE) as gateway:
        assert engine.poll() is None
        gateway.communicate(b"\n", SOON_S)
    assert engine.wait(SOON_S) == -9


def test_a_reaper_that_is_ended_itself_ends_no_process(engine: "subprocess.Popen[bytes]") -> None:
    ended = start_reaper([engine.pid])
    ended.kill()
    ended.communicate(timeout=SOON_S)
    assert engine.poll() is None


def test_missing_processes_are_ignored(engine: "subprocess.Popen[bytes]") -> None:
    engine.kill()
    engine.wait(SOON_S)
    ending = start_reaper([engine.pid])
    assert ending.stdin is not None
    ending.stdin.close()
    assert ending.wait(SOON_S) == 0
