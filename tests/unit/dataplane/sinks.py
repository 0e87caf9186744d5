"""A sink made of functions."""

from collections.abc import Callable

from dataplane.source import FastPath


class FakeFastPath:
    def __init__(self, forward_chunks: Callable[[bytes], int]) -> None:
        self._pass_chunks = forward_chunks

    def forward_chunks(self, read: bytes, /) -> int:
        return self._pass_chunks(read)


class FakeSink:
    """A sink with this `push` and, if given, a fast path with `forward_chunks`."""

    def __init__(self, push: Callable[[bytes], bool], forward_chunks: Callable[[bytes], int] | None = None) -> None:
        self._push = push
        self.fast_path: FastPath | None = None if forward_chunks is None else FakeFastPath(forward_chunks)

    def push(self, read: bytes) -> bool:
        return self._push(read)
