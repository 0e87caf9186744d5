"""The configured engine arguments as vLLM's own object, checked against the vLLM that is installed."""

from collections.abc import Mapping
from dataclasses import fields
from types import ModuleType
from typing import Any, Final

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError

from providers.config import ProviderConfig
from providers.errors import EngineUnavailable
from providers.vllm_inprocess.check import RESERVED_ARGUMENTS, unknown_argument_problems

_REASONING_CONFIG: Final = {"reasoning_start_str": "<think>", "reasoning_end_str": "</think>"}
"""What vLLM needs to know before it can keep a budget for thinking by itself (`two_pass: engine`)."""


def build_engine_args(vllm: ModuleType, name: str, config: ProviderConfig) -> Any:
    """vLLM's AsyncEngineArgs. Raises EngineUnavailable that names each key that is wrong."""
    types = {field.name: field.type for field in fields(vllm.AsyncEngineArgs) if not field.name.startswith("_")}
    problems = [
        (complaint.path[-1], complaint.message)
        for complaint in unknown_argument_problems(config.engine, types.keys() - RESERVED_ARGUMENTS.keys())
    ]
    values: dict[str, Any] = {}
    for key, given in config.engine.items():
        try:
            values[key] = _validate_argument(given, types.get(key, Any))
        except ValidationError as error:
            problems.append((key, error.errors(include_url=False)[0]["msg"]))
    if problems:
        raise EngineUnavailable(
            "; ".join(_format_problem(name, key, message) for key, message in problems), provider=name
        )
    try:
        return vllm.AsyncEngineArgs(model=config.model, **_default_args(types, values), **values)
    except ValueError as error:
        raise EngineUnavailable(f"providers.{name}.engine: {error}", provider=name) from error


def _format_problem(name: str, key: str, message: str) -> str:
    return f"providers.{name}.engine.{key}: {message}"


def _default_args(types: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What the gateway sets where the operator does not."""
    # The periodic line of statistics and the Prometheus registry are the server's, which is not running here.
    wanted: dict[str, Any] = {"disable_log_stats": True}
    if "reasoning_parser" not in given:
        wanted["reasoning_config"] = _validate_argument(_REASONING_CONFIG, types.get("reasoning_config", Any))
    return {key: value for key, value in wanted.items() if key in types and key not in given}


def _validate_argument(given: Any, kind: Any) -> Any:
    """The value as the argument's type wants it. None is left to vLLM, for which it often means its own choice."""
    if given is None:
        return None
    try:
        adapter = TypeAdapter(kind, config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticUserError:
        # A class with a configuration of its own takes none from here.
        try:
            adapter = TypeAdapter(kind)
        except PydanticUserError:
            return given
    return adapter.validate_python(given)
