"""Checks the configuration of a `llamacpp` provider before it starts. A child process with llama.cpp checks the
parameters."""

import importlib.util
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from providers.config import ProviderConfig
from providers.engines.base import EngineConfigProblem
from providers.engines.module_command import build_module_command

CHILD_COMMAND = build_module_command("providers.llamacpp.child")

_CHECK_TIMEOUT_S = 60.0
_GGUF_MAGIC = b"GGUF"


def is_xllamacpp_installed() -> bool:
    """Whether the llama.cpp library `xllamacpp` is installed. The library is not imported."""
    return importlib.util.find_spec("xllamacpp") is not None


def check_llamacpp_config(config: ProviderConfig) -> Sequence[EngineConfigProblem]:
    """Returns all problems with `model` and `engine`."""
    if not is_xllamacpp_installed():
        return [EngineConfigProblem(("type",), 'llama.cpp is not installed: pip install "responses-gateway[llamacpp]"')]
    return [*_check_model_file(Path(config.model or "")), *(_check_parameters(config) if config.engine else ())]


def _check_model_file(file: Path) -> Sequence[EngineConfigProblem]:
    try:
        with file.open("rb") as stream:
            magic = stream.read(len(_GGUF_MAGIC))
    except OSError as error:
        return [EngineConfigProblem(("model",), f"{file} cannot be read: {error.strerror}")]
    return [] if magic == _GGUF_MAGIC else [EngineConfigProblem(("model",), f"{file} is not a GGUF file")]


def _check_parameters(config: ProviderConfig) -> Sequence[EngineConfigProblem]:
    try:
        engine_json = json.dumps(config.engine)
    except (TypeError, ValueError):
        return [EngineConfigProblem(("engine",), "write only numbers, text, true, false, lists and keys")]
    process = subprocess.run(
        [*CHILD_COMMAND, "--check"],
        input=engine_json,
        capture_output=True,
        text=True,
        timeout=_CHECK_TIMEOUT_S,
        check=False,
    )
    if process.returncode:
        last_line = (process.stderr.strip().splitlines() or ["it printed no reason"])[-1]
        return [EngineConfigProblem(("type",), f"llama.cpp cannot be started: {last_line}")]
    return [EngineConfigProblem(("engine", *path), message) for path, message in json.loads(process.stdout)]
