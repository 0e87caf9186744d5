"""The class that gets each read of a socket first: the compiled one if `core/` is installed, else the Python one."""

from typing import TYPE_CHECKING

from dataplane.core import CORE

if TYPE_CHECKING or CORE is None:
    from dataplane.python_receiver import Receiver
else:
    Receiver = CORE.Receiver

__all__ = ["Receiver"]
