"""Chooses between the compiled core, if there is one of a version that fits, and Python (docs/adr/0023)."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from dataplane.source import FastPath, FastPathKind, ReadTemplate

_VERSION: Final = 14
"""The version of the core's interface. A core that was compiled from an older source is not used."""

try:
    import dataplane.compiled_core as compiled_core
except ImportError:
    CORE = None
else:
    CORE = compiled_core if compiled_core.VERSION == _VERSION else None

if TYPE_CHECKING or CORE is None:
    from dataplane.json_shape import measure_json
    from dataplane.python_core import ChunkWriter, Receiver
else:
    ChunkWriter, Receiver, measure_json = CORE.ChunkWriter, CORE.Receiver, CORE.measure_json

__all__ = ["CORE", "ChunkWriter", "Receiver", "make_fast_path", "measure_json"]

_FAST_PATHS: Final[Mapping[FastPathKind | None, Callable[[ReadTemplate[bytes], ChunkWriter], FastPath]]] = (
    {} if CORE is None else {"translation": CORE.TemplateFastPath, "relay": CORE.RelayFastPath}
)


def make_fast_path(template: ReadTemplate[bytes] | None, client: ChunkWriter) -> FastPath | None:
    """Returns the compiled code that forwards whole chunks to a client by a template; None if there is no template, or
    no compiled code for it.

    Without a fast path, reads are encoded by the template's `encode_read`.
    """
    make = None if template is None else _FAST_PATHS.get(template.fast_path_kind)
    return None if template is None or make is None else make(template, client)
