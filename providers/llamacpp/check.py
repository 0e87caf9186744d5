"""What is wrong with a `llamacpp` provider, before it starts. llama.cpp itself is asked, in a process of its own."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from providers.config import ProviderConfig
from providers.engines.checks import Complaint

CHILD = (sys.executable, "-m", "providers.llamacpp.child")

_CHECK_S = 60.0
_MAGIC = b"GGUF"


def is_installed() -> bool:
    """Whether there is a llama.cpp to start; finding out imports nothing of it."""
    return importlib.util.find_spec("xllamacpp") is not None


def complaints(config: ProviderConfig) -> Sequence[Complaint]:
    """Everything that is wrong with `model` and `engine`."""
    if not is_installed():
        return [Complaint(("type",), 'llama.cpp is not installed: pip install "responses-gateway[llamacpp]"')]
    return [*_of_the_file(Path(config.model or "")), *(_of_the_parameters(config) if config.engine else ())]


def _of_the_file(file: Path) -> Sequence[Complaint]:
    try:
        with file.open("rb") as opened:
            begins = opened.read(len(_MAGIC))
    except OSError as error:
        return [Complaint(("model",), f"{file} cannot be read: {error.strerror}")]
    return [] if begins == _MAGIC else [Complaint(("model",), f"{file} is not a GGUF file")]


def _of_the_parameters(config: ProviderConfig) -> Sequence[Complaint]:
    try:
        given = json.dumps(config.engine)
    except (TypeError, ValueError):
        return [Complaint(("engine",), "write numbers, text, true, false, lists and keys only")]
    done = subprocess.run(
        [*CHILD, "--check"], input=given, capture_output=True, text=True, timeout=_CHECK_S, check=False
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it does not say why"])[-1]
        return [Complaint(("type",), f"llama.cpp cannot be started: {last}")]
    return [Complaint(("engine", *path), message) for path, message in json.loads(done.stdout)]
