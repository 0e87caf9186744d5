"""A sink made of functions."""

from collections.abc import Callable

from dataplane.source import FastPath


class FakePassage:
    def __init__(self, forward_chunks: Callable[[bytes], int]) -> None:
        self._pass_chunks = forward_chunks

    def forward_chunks(self, read: bytes, /) -> int:
        return self._pass_chunks(read)


class FakeSink:
    """`push`, and where it is given `forward_chunks`, its passage."""

    def __init__(self, push: Callable[[bytes], bool], forward_chunks: Callable[[bytes], int] | None = None) -> None:
        self._push = push
        self.fast_path: FastPath | None = None if forward_chunks is None else FakePassage(forward_chunks)

    def push(self, read: bytes) -> bool:
        return self._push(read)
