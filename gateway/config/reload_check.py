"""Finds changes of a configuration that a running server cannot make. They are refused together with the rest of it."""

from collections.abc import Iterator
from typing import Final

from pydantic import BaseModel

from gateway.config.yaml_file import Problem

RELOADABLE_SECTIONS: Final = frozenset({"auth", "providers", "models", "families", "tools"})
"""The sections that may change while the server runs. Sockets, limits and tables of the others exist only once."""

_ADVICE: Final = "cannot change while the server runs: restart it, or undo the change"


def find_fixed_changes(running: BaseModel, settings: BaseModel) -> Iterator[Problem]:
    """Yield one problem for each key outside `RELOADABLE_SECTIONS` that differs. Both values are whole settings."""
    for section in type(settings).model_fields.keys() - RELOADABLE_SECTIONS:
        old, new = getattr(running, section), getattr(settings, section)
        if old == new:
            continue
        if not isinstance(old, BaseModel) or not isinstance(new, BaseModel):
            yield Problem((section,), _ADVICE)
            continue
        for key in type(new).model_fields:
            if getattr(old, key) != getattr(new, key):
                yield Problem((section, key), _ADVICE)
