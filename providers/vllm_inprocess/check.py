"""Checks the configuration of a `vllm_inprocess` provider before it starts. It parses vLLM's source, because importing
vLLM is slow."""

import ast
import difflib
import importlib.util
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

from providers.config import ProviderConfig
from providers.engines.base import EngineConfigProblem
from providers.vllm_inprocess.scale import find_scale_problems

NOT_INSTALLED: Final = 'vLLM is not installed: pip install "responses-gateway[vllm]"'

RESERVED_ARGUMENTS: Final[dict[str, str]] = {
    "model": "write it as the provider's model",
    "served_model_name": "the names clients use are the keys under models",
    "enable_log_requests": "the gateway logs requests itself",
    "skip_tokenizer_init": "the gateway needs the model's tokenizer",
}
"""Engine arguments that the operator may not set -> what to do instead."""


def check_vllm_config(config: ProviderConfig) -> Sequence[EngineConfigProblem]:
    """Returns the problems with `engine` that the names of its arguments show, and what this machine lacks for them."""
    scale_problems = [*find_scale_problems(config.engine)]
    installed = _vllm_folder()
    if installed is None:
        return [EngineConfigProblem(("type",), NOT_INSTALLED), *scale_problems]
    known = _argument_names(installed / "engine" / "arg_utils.py")
    # If the installed vLLM defines its arguments elsewhere, they are only checked when the engine starts.
    if not known:
        return scale_problems
    unknown = find_unknown_arguments(config.engine, known)
    return [*unknown, *_find_reserved_arguments(config.engine), *scale_problems]


def list_installed_tool_parsers() -> frozenset[str]:
    """Returns the names of the tool parsers that the installed vLLM has; empty if they cannot be found."""
    installed = _vllm_folder()
    tree = _parse_source(installed / "tool_parsers" / "__init__.py") if installed is not None else None
    for node in tree.body if tree is not None else ():
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            names = [getattr(target, "id", None) for target in node.targets]
            if "_TOOL_PARSERS_TO_REGISTER" in names:
                return frozenset(str(key.value) for key in node.value.keys if isinstance(key, ast.Constant))
    return frozenset()


def find_unknown_arguments(given: Collection[str], known: Collection[str]) -> Iterator[EngineConfigProblem]:
    """Yields a problem for each name that is not in `known`, with the most similar known name."""
    for name in given:
        if name not in known:
            nearest = difflib.get_close_matches(str(name), sorted(known), n=1)
            hint = f"; did you mean {nearest[0]}?" if nearest else ""
            yield EngineConfigProblem(
                ("engine", str(name)), f"the installed vLLM has no engine argument {name!r}{hint}"
            )


def _find_reserved_arguments(given: Collection[str]) -> Iterator[EngineConfigProblem]:
    for name in given:
        if name in RESERVED_ARGUMENTS:
            yield EngineConfigProblem(("engine", name), RESERVED_ARGUMENTS[name])


def _vllm_folder() -> Path | None:
    """Returns the folder of vLLM's package, or None. Finding a top-level package imports nothing."""
    spec = importlib.util.find_spec("vllm")
    locations = spec.submodule_search_locations if spec is not None else None
    return Path(locations[0]) if locations else None


def _argument_names(source: Path) -> frozenset[str]:
    """Returns the fields of vLLM's classes of engine arguments; empty if they cannot be found."""
    tree = _parse_source(source)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)] if tree is not None else []
    return frozenset(
        field.target.id
        for node in classes
        if node.name in ("EngineArgs", "AsyncEngineArgs")
        for field in node.body
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and not field.target.id.startswith("_")
    )


def _parse_source(source: Path) -> ast.Module | None:
    try:
        return ast.parse(source.read_text(encoding="utf-8"))
    except (OSError, SyntaxError):
        return None
