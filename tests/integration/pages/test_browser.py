"""The browser of the tests ends with them, also if it is started by a launcher."""

import time
from pathlib import Path

import pytest

from tests.browser import find_chromium, open_browser
from tests.processes import PROC, needs_proc

CHROMIUM = find_chromium()
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine; $CHROMIUM may name one"),
    pytest.mark.timeout(180),
]


def processes_with(text: str) -> list[str]:
    """The command lines of running processes that contain a text."""
    found = []
    for file in PROC.glob("[0-9]*/cmdline"):
        try:
            line = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has ended since it was listed
            continue
        if text in line:
            found.append(line)
    return found


@needs_proc
def test_a_browser_behind_a_launcher_ends_with_it(tmp_path: Path) -> None:
    # As Debian's chromium-headless-shell starts its browser: without `exec`.
    launcher = tmp_path / "launcher"
    launcher.write_text(f'#!/bin/sh\n{CHROMIUM} "$@" --user-agent=launched-here-{tmp_path.name}\nexit $?\n')
    launcher.chmod(0o755)
    with open_browser(str(launcher)) as tab:
        assert tab.evaluate("1 + 1") == 2
        assert processes_with(f"launched-here-{tmp_path.name}")
        began = time.monotonic()
    assert time.monotonic() - began < 20
    assert processes_with(f"launched-here-{tmp_path.name}") == []


def test_a_program_that_is_no_browser_is_reported(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho nothing to see >&2\n")
    program.chmod(0o755)
    with pytest.raises(RuntimeError, match=r"did not start: nothing to see"), open_browser(str(program)):
        pass
