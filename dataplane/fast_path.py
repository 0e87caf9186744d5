"""The short way of deltas through the gateway: compiled where `core/` is installed, else in Python."""

from dataplane import python_fast_path
from dataplane.client_writer import ChunkWriter
from dataplane.core import CORE
from dataplane.source import FastPath, ReadTemplate
from translation.chat.relay_template import RelayTemplate
from translation.responses.delta_template import DeltaTemplate

_Retold = python_fast_path.TemplateFastPath if CORE is None else CORE.TemplateFastPath
_Passed = python_fast_path.RelayFastPath if CORE is None else CORE.RelayFastPath


def make_fast_path(alike: ReadTemplate[bytes] | None, client: ChunkWriter) -> FastPath | None:
    """One for what is alike; None where there is none."""
    if isinstance(alike, DeltaTemplate):
        return _Retold(alike, client)
    if isinstance(alike, RelayTemplate):
        return _Passed(alike, client)
    return None
