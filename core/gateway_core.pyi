from asyncio import Transport
from collections.abc import Callable

from dataplane.read_waiter import Arrival
from dataplane.source import Passage
from translation.chat.relay_template import Passing
from translation.responses.delta_template import Retelling

VERSION: int

class Receiver:
    passage: Passage | None
    waiter: Arrival | None
    passed_at: float
    reads: int
    is_coalesced: bool
    between_chunks: bool
    more_is_here: bool

    def received(self, data: bytes) -> None: ...
    def flows(self) -> None: ...
    def data_received(self, data: bytes) -> None: ...
    def note_passed(self) -> None: ...
    def on_chunk_header(self) -> None: ...
    def on_chunk_complete(self) -> None: ...

class Outlet:
    ready: bool
    write_chunk: Callable[[bytes], None]
    sent_at: float
    transport: Transport
    socket: int

class Retold:
    def __init__(self, retelling: Retelling, client: Outlet) -> None: ...
    def pass_chunks(self, data: bytes, /) -> int: ...

class Passed:
    def __init__(self, passing: Passing, client: Outlet) -> None: ...
    def pass_chunks(self, data: bytes, /) -> int: ...
