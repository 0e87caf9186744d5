"""Shares what FastAPI finds in the signatures of endpoints among all applications of this process.

Each application has new functions of the same code as its endpoints, and FastAPI examines each: its parameters, and a
validator for each of them. That takes half of the processor time of a test that starts a server of its own.
"""

import copy
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest
from fastapi import routing
from fastapi.dependencies.models import Dependant
from fastapi.dependencies.utils import get_dependant as examine

_LISTS = ("path_params", "query_params", "header_params", "cookie_params", "body_params", "dependencies")


def share_route_analysis(patch: pytest.MonkeyPatch) -> None:
    """Examines a signature once for each path, as long as the patch lasts."""
    known: dict[tuple[object, ...], Dependant] = {}

    def get_dependant(*, path: str, call: Callable[..., Any], **options: Any) -> Dependant:
        key = identify_endpoint(path, call, options)
        if key is None:
            return examine(path=path, call=call, **options)
        if key not in known:
            known[key] = examine(path=path, call=call, **options)
        shared = copy.copy(known[key])
        shared.call = call
        for name in _LISTS:
            setattr(shared, name, list(getattr(shared, name)))
        return shared

    patch.setattr(routing, "get_dependant", get_dependant)


def identify_endpoint(path: str, call: Callable[..., Any], options: dict[str, Any]) -> tuple[object, ...] | None:
    """Returns what decides the result of an examination; None for what may differ although it looks the same."""
    if not isinstance(call, FunctionType) or hasattr(call, "__wrapped__") or hasattr(call, "__signature__"):
        return None
    signature = repr((call.__annotations__, call.__defaults__, call.__kwdefaults__, options))
    # An object that is known by its address alone, such as another function.
    return None if " at 0x" in signature else (path, call.__code__, signature)
