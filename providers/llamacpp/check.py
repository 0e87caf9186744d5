"""What is wrong with a `llamacpp` provider, before it starts. llama.cpp itself is asked, in a process of its own."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from providers.config import ProviderConfig
from providers.engines.checks import EngineConfigProblem

CHILD_COMMAND = (sys.executable, "-m", "providers.llamacpp.child")

_CHECK_TIMEOUT_S = 60.0
_GGUF_MAGIC = b"GGUF"


def is_xllamacpp_installed() -> bool:
    """Whether there is a llama.cpp to start; finding out imports nothing of it."""
    return importlib.util.find_spec("xllamacpp") is not None


def check_llamacpp_config(config: ProviderConfig) -> Sequence[EngineConfigProblem]:
    """Everything that is wrong with `model` and `engine`."""
    if not is_xllamacpp_installed():
        return [EngineConfigProblem(("type",), 'llama.cpp is not installed: pip install "responses-gateway[llamacpp]"')]
    return [*_check_model_file(Path(config.model or "")), *(_check_parameters(config) if config.engine else ())]


def _check_model_file(file: Path) -> Sequence[EngineConfigProblem]:
    try:
        with file.open("rb") as stream:
            begins = stream.read(len(_GGUF_MAGIC))
    except OSError as error:
        return [EngineConfigProblem(("model",), f"{file} cannot be read: {error.strerror}")]
    return [] if begins == _GGUF_MAGIC else [EngineConfigProblem(("model",), f"{file} is not a GGUF file")]


def _check_parameters(config: ProviderConfig) -> Sequence[EngineConfigProblem]:
    try:
        engine_json = json.dumps(config.engine)
    except (TypeError, ValueError):
        return [EngineConfigProblem(("engine",), "write numbers, text, true, false, lists and keys only")]
    done = subprocess.run(
        [*CHILD_COMMAND, "--check"],
        input=engine_json,
        capture_output=True,
        text=True,
        timeout=_CHECK_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it does not say why"])[-1]
        return [EngineConfigProblem(("type",), f"llama.cpp cannot be started: {last}")]
    return [EngineConfigProblem(("engine", *path), message) for path, message in json.loads(done.stdout)]
