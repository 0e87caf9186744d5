"""Builds vLLM's engine arguments from the configuration, and checks them against the installed vLLM."""

from collections.abc import Mapping
from dataclasses import fields
from types import ModuleType
from typing import Any, Final

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError

from providers.config import ProviderConfig
from providers.errors import EngineUnavailable
from providers.vllm_inprocess.check import RESERVED_ARGUMENTS, find_unknown_arguments

_REASONING_CONFIG: Final = {"reasoning_start_str": "<think>", "reasoning_end_str": "</think>"}
"""The tags that vLLM needs to enforce a thinking budget by itself (`two_pass: engine`)."""


def build_engine_args(vllm: ModuleType, name: str, config: ProviderConfig) -> Any:
    """Returns vLLM's AsyncEngineArgs. Raises EngineUnavailable with the name of each invalid key."""
    types = {field.name: field.type for field in fields(vllm.AsyncEngineArgs) if not field.name.startswith("_")}
    problems = [
        (problem.path[-1], problem.message)
        for problem in find_unknown_arguments(config.engine, types.keys() - RESERVED_ARGUMENTS.keys())
    ]
    values: dict[str, Any] = {}
    for key, value in config.engine.items():
        try:
            values[key] = _validate_argument(value, types.get(key, Any))
        except ValidationError as error:
            problems.append((key, error.errors(include_url=False)[0]["msg"]))
    if problems:
        raise EngineUnavailable(
            "; ".join(_describe_problem(name, key, message) for key, message in problems), provider=name
        )
    try:
        return vllm.AsyncEngineArgs(model=config.model, **_build_default_args(types, values), **values)
    except ValueError as error:
        raise EngineUnavailable(f"providers.{name}.engine: {error}", provider=name) from error


def _describe_problem(name: str, key: str, message: str) -> str:
    return f"providers.{name}.engine.{key}: {message}"


def _build_default_args(types: Mapping[str, Any], configured: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments that the gateway sets unless the operator does."""
    # The periodic log line of statistics and the Prometheus registry belong to vLLM's server, which does not run here.
    defaults: dict[str, Any] = {"disable_log_stats": True}
    if "reasoning_parser" not in configured:
        defaults["reasoning_config"] = _validate_argument(_REASONING_CONFIG, types.get("reasoning_config", Any))
    return {key: value for key, value in defaults.items() if key in types and key not in configured}


def _validate_argument(value: Any, kind: Any) -> Any:
    """Returns the value converted to the argument's type. None is left to vLLM, which often takes it as its default.

    Raises pydantic's ValidationError.
    """
    if value is None:
        return None
    try:
        adapter = TypeAdapter(kind, config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticUserError:
        # Pydantic refuses a configuration for a type that has its own.
        try:
            adapter = TypeAdapter(kind)
        except PydanticUserError:
            return value
    return adapter.validate_python(value)
