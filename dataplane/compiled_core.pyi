from asyncio import Transport
from collections.abc import Callable

from dataplane.read_waiter import ReadWaiter
from dataplane.source import FastPath, ReadTemplate

VERSION: int

class Receiver:
    fast_path: FastPath | None
    waiter: ReadWaiter | None
    forwarded_at: float
    reads: int
    is_coalesced: bool
    between_chunks: bool
    has_more: bool

    def process_read(self, data: bytes) -> None: ...
    def on_steady_flow(self) -> None: ...
    def data_received(self, data: bytes) -> None: ...
    def note_forwarded(self) -> None: ...
    def on_chunk_header(self) -> None: ...
    def on_chunk_complete(self) -> None: ...

class ChunkWriter:
    ready: bool
    write_chunk: Callable[[bytes], None]
    sent_at: float
    transport: Transport
    socket: int

class TemplateFastPath:
    def __init__(self, template: ReadTemplate[bytes], client: ChunkWriter) -> None: ...
    def forward_chunks(self, data: bytes, /) -> int: ...

class RelayFastPath:
    def __init__(self, template: ReadTemplate[bytes], client: ChunkWriter) -> None: ...
    def forward_chunks(self, data: bytes, /) -> int: ...

def measure_json(text: bytes) -> tuple[int, int]: ...
