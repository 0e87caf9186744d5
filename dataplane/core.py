"""Chooses between the compiled core, if a version that fits is installed, and Python (docs/adr/0023)."""

from typing import TYPE_CHECKING, Final

from dataplane.source import FastPath, ReadTemplate
from translation.encoding.delta_template import DeltaTemplate
from translation.encoding.relay_template import RelayTemplate

_VERSION: Final = 12
"""The version of the interface of `core/`. A core of another version was built for another gateway and is not used."""

try:
    import gateway_core
except ImportError:
    CORE = None
else:
    CORE = gateway_core if gateway_core.VERSION == _VERSION else None

if TYPE_CHECKING or CORE is None:
    from dataplane.json_shape import measure_json
    from dataplane.python_core import ChunkWriter, Receiver
else:
    ChunkWriter, Receiver, measure_json = CORE.ChunkWriter, CORE.Receiver, CORE.measure_json

__all__ = ["CORE", "ChunkWriter", "Receiver", "make_fast_path", "measure_json"]


def make_fast_path(template: ReadTemplate[bytes] | None, client: ChunkWriter) -> FastPath | None:
    """Returns the compiled code that forwards whole chunks to a client by a template; None without either of the two.

    Without a fast path, reads are encoded by the template's `encode_read`.
    """
    if CORE is None:
        return None
    path: FastPath | None = None
    if isinstance(template, DeltaTemplate):
        path = CORE.TemplateFastPath(template, client)
    elif isinstance(template, RelayTemplate):
        path = CORE.RelayFastPath(template, client)
    return path
