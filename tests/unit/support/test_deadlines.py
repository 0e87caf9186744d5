"""Every test ends: tests that hang where no signal helps end with their process, and say what waited."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

CONFTEST = """
from tests.unit.support.deadlines import LastDeadlines

def pytest_configure(config):
    config.pluginmanager.register(LastDeadlines(grace_s=1))
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
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(program)
    command = [sys.executable, "-m", "pytest", "--rootdir", str(tmp_path), "-p", "no:cacheprovider", "-c", os.devnull]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*command, "test_it.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 1
    assert "Timeout (0:00:0" in done.stderr
    assert "in wait_in_teardown" in done.stderr
