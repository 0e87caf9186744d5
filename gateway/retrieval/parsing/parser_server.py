"""The parser server: `python -m gateway.retrieval.parsing.parser_server FD`. It forks a child for each file.

Everything that parsing imports is loaded before the first child is forked, so that a child need not open anything. It
has two descriptors, the file and a socket for its results, and no right to open a file or a socket. Server and children
end with the process that started them.
"""

import ctypes
import io
import os
import resource
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

import orjson

from gateway.retrieval.chunks import ChunkSizes, cut_chunks
from gateway.retrieval.parsing.file_text import OWN_READER, DocumentReader, load_parsers, read_text
from gateway.retrieval.parsing.parsed_text import ParsingBounds, ReadingMethod, ServiceNeeded, UnreadableFile
from gateway.retrieval.parsing.service_text import SERVICE_READER, read_reply
from gateway.retrieval.terms import ChunkTerms
from gateway.retrieval.word_pieces import TooManyPieces, WordPieces

TEXT_SIZE: Final = 16_384
"""The characters of one piece of the text, as it is sent."""

CHUNKS_SIZE: Final = 8
"""The chunks that are sent together."""

_MAX_REQUEST: Final = 8192
_MEBIBYTE: Final = 1_048_576

_DIE_WITH_PARENT: Final = 1
"""`PR_SET_PDEATHSIG` of prctl(2)."""


class ParsingRequest(NamedTuple):
    """What a child is to do: the name of the file, who reads it, and how."""

    name: str
    method: ReadingMethod
    bounds: ParsingBounds
    sizes: ChunkSizes


def parse_file(file: int, request: ParsingRequest) -> Iterator[dict[str, object]]:
    """Yields what parsing a file comes to, as it is sent: pieces of the `text`, `chunks` of it as
    [first character, character behind it, terms], and `end`; or `fault` with a code and a sentence; or
    `service` with the kind of a document that a parser service is to convert."""
    bounds = request.bounds
    try:
        with open(file, "rb") as content:
            text = _read_by(request.method, content.read(), request.name, bounds)
        # Before anything is sent: to index a part of a file that is too long would be in vain.
        pieces = WordPieces(text, bounds.tokens)
        for start in range(0, len(text), TEXT_SIZE):
            yield {"text": text[start : start + TEXT_SIZE]}
        batch: list[list[object]] = []
        terms = ChunkTerms(text)
        for chunk in cut_chunks(text, request.sizes, pieces):
            batch.append([chunk.start, chunk.end, terms.join(chunk.start, chunk.end)])
            if len(batch) == CHUNKS_SIZE:
                yield {"chunks": batch}
                batch = []
        yield {"chunks": batch}
        yield {"end": True}
    except UnreadableFile as fault:
        yield {"fault": [fault.code, fault.message]}
    except ServiceNeeded as needed:
        yield {"service": needed.kind}
    except TooManyPieces:
        yield {"fault": ["invalid_file", f"The file has more than {bounds.tokens} tokens."]}
    except MemoryError:
        yield {"fault": ["invalid_file", "The file needs too much memory to be read."]}


def _read_by(method: ReadingMethod, content: bytes, name: str, bounds: ParsingBounds) -> str:
    if method == "service_reply":
        return read_reply(content, bounds)
    return read_text(content, name, bounds, _find_reader(method))


def _find_reader(method: ReadingMethod) -> DocumentReader:
    if method == "markitdown":
        from gateway.retrieval.parsing.markitdown_text import (
            MARKITDOWN_READER,
        )  # it takes 300 MB, and its package is an extra

        return MARKITDOWN_READER
    return SERVICE_READER if method == "service" else OWN_READER


def main() -> None:
    """Serves requests on the socket whose descriptor is the first argument, until the process at its other end is gone.
    The second argument is who reads files: a reading method.

    A request is a line of JSON with `name`, `method`, `bounds` and `sizes`, and two descriptors: the file and a socket.
    """
    control = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the whole group: the server decides
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children leave no zombies
    _bind_to_parent()
    load_parsers()
    if sys.argv[2] == "markitdown":
        from gateway.retrieval.parsing.markitdown_text import load_converters

        load_converters()
    while True:
        line, (file, results) = _receive_request(control)
        if os.fork() == 0:
            control.close()
            _run_child(file, results, orjson.loads(line))
        os.close(file)
        os.close(results)


def _receive_request(control: socket.socket) -> tuple[bytes, list[int]]:
    line, descriptors, _, _ = socket.recv_fds(control, _MAX_REQUEST, 2)
    while line and not line.endswith(b"\n"):
        more = control.recv(_MAX_REQUEST)
        line = line + more if more else b""
    if not line:
        sys.exit(0)
    return line, list(descriptors)


def _run_child(file: int, results: int, request: dict[str, Any]) -> NoReturn:
    code = 1
    try:
        bounds = ParsingBounds(*request["bounds"])
        _bind_to_parent()
        _set_bounds(bounds)
        work = ParsingRequest(request["name"], request["method"], bounds, ChunkSizes(*request["sizes"]))
        with open(results, "wb", buffering=0) as out:
            for frame in parse_file(file, work):
                _send_frame(out, orjson.dumps(frame))
        code = 0
    finally:
        os._exit(code)


def _send_frame(out: io.FileIO, data: bytes) -> None:
    """Writes a frame whole. The alarm of the child rests while it waits for the reader, who may be slow."""
    left_s, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    unsent = memoryview(len(data).to_bytes(4, "big") + data)
    while unsent:
        unsent = unsent[out.write(unsent) :]
    signal.setitimer(signal.ITIMER_REAL, left_s)


def _bind_to_parent() -> None:
    """Lets this process end when its parent does, where the system can (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)


def _set_bounds(bounds: ParsingBounds) -> None:
    """Sets the bounds of a child. SIGALRM ends it when its time is over, whatever it is doing."""
    signal.setitimer(signal.ITIMER_REAL, bounds.seconds)
    limits = [
        (resource.RLIMIT_CPU, int(bounds.seconds) + 1),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
    ]
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limits.append((resource.RLIMIT_AS, pages * resource.getpagesize() + bounds.memory_mb * _MEBIBYTE))
    limits.append((resource.RLIMIT_NOFILE, 0))
    for limit, most in limits:
        resource.setrlimit(limit, (most, most))


if __name__ == "__main__":
    main()
