"""The short way of deltas through the gateway: compiled where `core/` is installed, else in Python."""

from dataplane import python_fast_path
from dataplane.client_writer import Outlet
from dataplane.core import CORE
from dataplane.source import Alike, Passage
from translation.chat.relay_template import Passing
from translation.responses.delta_template import Retelling

_Retold = python_fast_path.Retold if CORE is None else CORE.Retold
_Passed = python_fast_path.Passed if CORE is None else CORE.Passed


def passage(alike: Alike[bytes] | None, client: Outlet) -> Passage | None:
    """One for what is alike; None where there is none."""
    if isinstance(alike, Retelling):
        return _Retold(alike, client)
    if isinstance(alike, Passing):
        return _Passed(alike, client)
    return None
