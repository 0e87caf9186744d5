"""Shares what FastAPI finds in the signatures of endpoints among all applications of this process.

Each application has new functions of the same code as its endpoints, and FastAPI examines each: its parameters, a
validator for each of them, what it returns, and what kind of function it is. That takes most of the processor time of a
test that starts a server of its own.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from operator import attrgetter
from types import FunctionType
from typing import TYPE_CHECKING, Any

from fastapi import routing
from fastapi.dependencies.models import Dependant
from fastapi.dependencies.utils import get_dependant as examine
from fastapi.dependencies.utils import get_typed_return_annotation as examine_result
from starlette.routing import compile_path

if TYPE_CHECKING:
    import pytest

_read_fields = attrgetter(*[field.name for field in dataclasses.fields(Dependant)])


_KINDS = ("_is_gen_callable", "_is_async_gen_callable", "_is_coroutine_callable", "is_async_callable")
"""What FastAPI asks about the kind of a function."""


class Replacing:
    """Replaces attributes for good, where pytest is not imported."""

    setattr = staticmethod(setattr)


def share_route_analysis(patch: "pytest.MonkeyPatch | Replacing") -> None:
    """Examines a signature once for each path, and a function once for each code, as long as the patch lasts."""
    known: dict[tuple[object, ...], Dependant] = {}

    def get_dependant(*, path: str, call: Callable[..., Any], **options: Any) -> Dependant:
        key = identify_endpoint(path, call, options)
        if key is None:
            return examine(path=path, call=call, **options)
        if key not in known:
            known[key] = examine(path=path, call=call, **options)
        fields: list[Any] = [list(value) if isinstance(value, list) else value for value in _read_fields(known[key])]
        shared = Dependant(*fields)
        shared.call = call
        return shared

    results: dict[tuple[object, ...], object] = {}

    def get_result(call: Callable[..., Any]) -> object:
        key = identify_endpoint("", call, {})
        if key is None:
            return examine_result(call)
        if key not in results:
            results[key] = examine_result(call)
        return results[key]

    patch.setattr(routing, "get_dependant", get_dependant)
    patch.setattr(routing, "get_typed_return_annotation", get_result)
    patch.setattr(routing, "compile_path", functools.cache(compile_path))
    patch.setattr(inspect, "cleandoc", functools.cache(inspect.cleandoc))
    for name in _KINDS:
        patch.setattr(routing, name, _ask_once_per_code(getattr(routing, name)))


def _ask_once_per_code(ask: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Asks about a plain function only if no function of the same code was asked about."""
    known: dict[object, bool] = {}

    def answer(call: Any) -> bool:
        if not isinstance(call, FunctionType) or call.__dict__:  # which may wrap another function, or have a mark
            return ask(call)
        if call.__code__ not in known:
            known[call.__code__] = ask(call)
        return known[call.__code__]

    return answer


def identify_endpoint(path: str, call: Callable[..., Any], options: dict[str, Any]) -> tuple[object, ...] | None:
    """Returns what decides the result of an examination; None for what may differ although it looks the same."""
    if not isinstance(call, FunctionType) or hasattr(call, "__wrapped__") or hasattr(call, "__signature__"):
        return None
    signature = repr((call.__annotations__, call.__defaults__, call.__kwdefaults__, options))
    # An object that is known by its address alone, such as another function.
    return None if " at 0x" in signature else (path, call.__code__, signature)
