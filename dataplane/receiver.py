"""What takes a read from the socket first: compiled where `core/` is installed, else in Python."""

from typing import TYPE_CHECKING

from dataplane.core import CORE

if TYPE_CHECKING or CORE is None:
    from dataplane.python_receiver import Receiver
else:
    Receiver = CORE.Receiver

__all__ = ["Receiver"]
