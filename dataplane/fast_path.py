"""Chooses the fast path for a template: the compiled code that forwards whole chunks from socket to socket."""

from dataplane.client_writer import ChunkWriter
from dataplane.core import CORE
from dataplane.source import FastPath, ReadTemplate
from translation.chat.relay_template import RelayTemplate
from translation.responses.delta_template import DeltaTemplate


def make_fast_path(template: ReadTemplate[bytes] | None, client: ChunkWriter) -> FastPath | None:
    """Returns the fast path by a template to a client; None without a template or without the compiled core.

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
