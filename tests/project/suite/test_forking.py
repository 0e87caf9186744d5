"""A forked command that a busy machine starts too late does not disturb the next one."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import forking
from tests.forking import ANSWER, Forked, fork_command, fork_parser_server, receive_pid
from tests.own_process import find_descriptors, identify_file
from tests.polling import block_until
from tests.processes import is_running, needs_proc

WAIT_S = 60.0
PAIRS = 200
ROOT = Path(__file__).parents[3]


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]) as process:
        yield process
        process.kill()


def test_the_late_answer_to_one_request_is_not_taken_for_that_to_the_next(sleeper: "subprocess.Popen[bytes]") -> None:
    answers, server = socket.socketpair()
    with answers, server:
        server.send(ANSWER.pack(7, sleeper.pid) + ANSWER.pack(8, os.getpid()))
        assert receive_pid(answers, 8) == os.getpid()
    assert sleeper.wait(WAIT_S) == -signal.SIGKILL


def test_a_command_that_does_not_start_in_time_leaves_no_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipes = [os.pipe(), os.pipe()]
    files = [identify_file(descriptor) for pipe in pipes for descriptor in pipe]
    answers, server = socket.socketpair()
    with answers, server, (tmp_path / "log").open("w") as log:
        answers.settimeout(0)
        monkeypatch.setattr(forking, "_fork_server", lambda _: answers)
        monkeypatch.setattr(forking, "make_pipe", iter(pipes).__next__)
        with pytest.raises(BlockingIOError):
            fork_command(["serve"], tmp_path, log, {})
        # The copies that were sent are closed with this socket.
    assert [each for file in files for each in find_descriptors(file)] == []


def test_a_signal_to_a_process_that_has_just_ended_is_no_error(sleeper: "subprocess.Popen[bytes]") -> None:
    sleeper.kill()
    sleeper.wait(WAIT_S)
    reading, writing = os.pipe()
    # Its exit code is not written yet.
    forked = Forked(sleeper.pid, os.fdopen(os.dup(reading)), reading)
    with forked.stdout:
        forked.send_signal(0)
    os.close(reading)
    os.close(writing)


def test_the_end_of_each_process_is_reported_also_just_after_another() -> None:
    """The signal of an end that came between the handler of the one before and the next wait was lost: 1 in 1,000."""
    for _ in range(PAIRS):
        pair = []
        for _ in range(2):
            ours, control = socket.socketpair()
            with ours, control:
                pair.append(fork_parser_server(control.fileno(), "builtin"))
        assert [process.wait(WAIT_S) for process in pair] == [0, 0]


@needs_proc
def test_processes_end_with_whoever_started_them(tmp_path: Path) -> None:
    """A test process that is killed at its last deadline leaves no servers behind."""
    start = f"""
import os, signal
from pathlib import Path
from tests.serving import command
with command({{"store": {{"url": None}}}}, Path({str(tmp_path)!r}), "--workers", "2", forked=True) as server:
    print(server.process.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    with subprocess.Popen([sys.executable, "-c", start], stdout=subprocess.PIPE, text=True, cwd=ROOT) as killed:
        assert killed.stdout is not None
        server = int(killed.stdout.readline())
        assert killed.wait(WAIT_S) == -signal.SIGKILL
    block_until(lambda: not is_running(server), "the server runs on")
