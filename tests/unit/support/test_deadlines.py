"""Every test ends: tests that hang where no signal helps end with their process, and say what waited."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.unit.support.deadlines import LastDeadlines

ROOT = Path(__file__).parents[3]

CONFTEST = """
from tests.unit.support.deadlines import LastDeadlines

def pytest_configure(config):
    config.pluginmanager.register(LastDeadlines(grace_s={grace_s}))
"""

HANGING = {
    "a teardown after a test that was interrupted": """
import threading, pytest

@pytest.fixture
def slow():
    yield
    wait_in_teardown()

def wait_in_teardown():
    threading.Event().wait()

@pytest.mark.timeout(1)
def test_hangs(slow):
    threading.Event().wait()
""",
    "a wait that no signal interrupts": """
import os, threading, pytest

@pytest.fixture(scope="module")
def pipe():
    reading, writing = os.pipe()
    stream = os.fdopen(reading)
    threading.Thread(target=stream.read, daemon=True).start()
    yield stream
    wait_in_teardown(stream)
    os.close(writing)

def wait_in_teardown(stream):
    import time
    time.sleep(0.3)  # the thread has begun to read
    stream.close()

@pytest.mark.timeout(1)
def test_passes(pipe):
    pass
""",
    "the end of the process": """
import threading

def wait_in_teardown():
    threading.Event().wait()

def test_passes():
    threading.Thread(target=wait_in_teardown).start()
""",
}


@pytest.mark.parametrize("program", HANGING.values(), ids=HANGING)
def test_a_process_that_hangs_is_ended_and_says_where(program: str, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST.format(grace_s=4))
    (tmp_path / "test_it.py").write_text(program)
    command = [sys.executable, "-m", "pytest", "--rootdir", str(tmp_path), "-p", "no:cacheprovider", "-c", os.devnull]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*command, "test_it.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 1
    assert "Timeout (0:00:0" in done.stderr
    assert "in wait_in_teardown" in done.stderr


def test_the_end_of_a_worker_has_its_deadline_when_its_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not when its tests end: then it waits for the other workers, however long they take."""
    armed: list[float] = []
    at_exit: list[tuple[Callable[[float], None], float]] = []
    deadlines = LastDeadlines(grace_s=30)
    monkeypatch.setattr(deadlines, "_arm", armed.append)
    monkeypatch.setattr(threading, "_register_atexit", lambda call, seconds: at_exit.append((call, seconds)))
    deadlines.pytest_unconfigure(Mock(spec=["workerinput"]))
    assert armed == []
    for call, seconds in at_exit:
        call(seconds)
    assert armed == [30]
    deadlines.pytest_unconfigure(Mock(spec=[]))
    assert armed == [30, 30]


def test_a_worker_that_hangs_at_its_end_is_ended_and_says_where(tmp_path: Path) -> None:
    # Less than the time after which the other process ends the worker by itself.
    (tmp_path / "conftest.py").write_text(CONFTEST.format(grace_s=1))
    (tmp_path / "test_it.py").write_text(HANGING["the end of the process"])
    command = [sys.executable, "-m", "pytest", "--rootdir", str(tmp_path), "-p", "no:cacheprovider", "-c", os.devnull]
    done = subprocess.run(
        [*command, "-n", "1", "test_it.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert "wait_in_teardown" in done.stderr
    assert "Timeout" in done.stderr
