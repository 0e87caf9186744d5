"""The parameters of an embedded llama.cpp: their names, their ranges, and refusals."""

import json
import operator
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import xllamacpp

from gateway.config.settings import parse_settings
from gateway.config.yaml_file import ConfigError, Problem, render_path
from providers.llamacpp.ranges import RANGES
from tests.integration.embedded.embedded_engine import (
    CONFIG,
    ENGINE,
)

CHECKS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a parameter there is not": ({"n_ctxx": 1}, ["n_ctxx: llama.cpp has no such parameter; did you mean n_ctx?"]),
    "one inside another": (
        {"cpuparams": {"n_thread": 1}},
        ["cpuparams.n_thread: llama.cpp has no such parameter; did you mean n_threads?"],
    ),
    "one with dots": (
        {"cpuparams.n_thread": 1},
        ['"cpuparams.n_thread": llama.cpp has no such parameter; did you mean n_threads?'],
    ),
    "values of other types": (
        {"n_ctx": "big", "n_parallel": True, "warmup": 1, "rope_freq_base": "x", "prompt": 1, "tensor_split": 1},
        [
            "n_ctx: write a whole number",
            "n_parallel: write a whole number",
            "warmup: write true or false",
            "rope_freq_base: write a number",
            "prompt: write text",
            "tensor_split: write a list: [a, b]",
        ],
    ),
    "a value for a structure": ({"cpuparams": 3}, ["cpuparams: write keys and values: {key: value}"]),
    "a number that is too large": (
        {"n_batch": 10**12},
        ["n_batch: llama.cpp does not accept this value: value too large"],
    ),
    "numbers that it takes and cannot live with": (
        {"n_ctx": -5, "n_parallel": 0, "cpuparams": {"n_threads": 0}, "cpuparams_batch.n_threads": -2, "n_batch": 0},
        [
            "n_ctx: write a number from 64 on, or 0",
            "n_parallel: write a number from 1 to 256, or -1",
            "cpuparams.n_threads: write a number from 1 to 512, or -1",
            '"cpuparams_batch.n_threads": write a number from 1 to 512, or -1',
            "n_batch: write a number from 1 on",
        ],
    ),
    "numbers that mean its own choice": ({"n_ctx": 0, "n_parallel": -1, "cpuparams": {"n_threads": -1}}, []),
    "a share that is none": ({"sampling.top_p": float("nan")}, ['"sampling.top_p": write a number from 0 to 1']),
    "a word there is not": ({"cache_type_k": "Q8"}, ["cache_type_k: write one of GGML_TYPE_F32, "]),
    "a structure that is made in code": ({"model_tags": ["a"]}, ["model_tags: this parameter cannot be set here"]),
    "what is the gateway's to say": ({"port": 80}, ["port: port cannot be set: the engine is only reachable through"]),
    "all of it well": ({"n_ctx": 512, "rope_freq_base": 1, "cache_type_k": "GGML_TYPE_Q8_0", "mmproj.path": "x"}, []),
}  # fmt: skip


@pytest.mark.parametrize(("given", "value"), CHECKS.values(), ids=CHECKS)
def test_parameters_are_checked_by_llama_cpp_itself(given: dict[str, Any], value: list[str]) -> None:
    problems: Sequence[Problem] = ()
    try:
        parse_settings({**CONFIG, "providers": {"embedded": {**ENGINE, "engine": given}}}, environ={})
    except ConfigError as error:
        problems = error.problems
    lines = [f"{render_path(problem.path)}: {problem.message}" for problem in problems]
    lines = [line.removeprefix("providers.embedded.engine.") for line in lines]
    assert len(lines) == len(value)
    assert all(line.startswith(claim) for line, claim in zip(lines, value, strict=True)), lines


def test_every_number_with_a_range_is_one_of_llama_cpps_and_its_default_is_in_it() -> None:
    parameters = xllamacpp.CommonParams()
    for path, allowed in RANGES.items():
        value = operator.attrgetter(path)(parameters)
        assert isinstance(value, int | float), path
        assert allowed.find_problem(value) is None, path


def test_without_the_library_the_error_names_what_to_install(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(json.dumps(CONFIG))
    hiding = (
        "import sys; from importlib.machinery import PathFinder; find = PathFinder.find_spec\n"
        "PathFinder.find_spec = lambda name, *rest: None if name == 'xllamacpp' else find(name, *rest)\n"
        "from gateway.cli.commands import app; app(['check-config', sys.argv[1]])"
    )
    done = subprocess.run([sys.executable, "-c", hiding, str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert (
        'providers.embedded.type: llama.cpp is not installed: pip install "responses-gateway[llamacpp]"' in done.stderr
    )
