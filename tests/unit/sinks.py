"""A sink made of functions."""

from collections.abc import Callable

from dataplane.source import Passage


class FakePassage:
    def __init__(self, pass_chunks: Callable[[bytes], int]) -> None:
        self._pass_chunks = pass_chunks

    def pass_chunks(self, read: bytes, /) -> int:
        return self._pass_chunks(read)


class FakeSink:
    """`push`, and where it is given `pass_chunks`, its passage."""

    def __init__(self, push: Callable[[bytes], bool], pass_chunks: Callable[[bytes], int] | None = None) -> None:
        self._push = push
        self.passage: Passage | None = None if pass_chunks is None else FakePassage(pass_chunks)

    def push(self, read: bytes) -> bool:
        return self._push(read)
