"""Builds commands that run a module of the gateway in a child process."""

import sys
from pathlib import Path
from typing import Final

_ROOT: Final = str(Path(__file__).parents[2])
"""The folder that contains the packages of the gateway."""

_RUN_MODULE: Final = (
    "import runpy, sys; name, root = sys.argv[1:3]; del sys.argv[1:3]; sys.path.append(root); "
    "runpy.run_module(name, run_name='__main__', alter_sys=True)"
)


def build_module_command(name: str) -> tuple[str, ...]:
    """Returns the command that runs a module like `python -m NAME`. Arguments may be appended.

    The working directory is not searched for modules: a folder `providers/` or `gateway/` there would be imported
    instead of the gateway's own.
    """
    return sys.executable, "-P", "-c", _RUN_MODULE, name, _ROOT
