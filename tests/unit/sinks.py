"""A sink made of functions."""

from collections.abc import Callable


class FakeSink:
    """`push` and `pass_chunks`, as they are given; `pass_chunks` may be set later."""

    def __init__(self, push: Callable[[bytes], bool], pass_chunks: Callable[[bytes], bool] | None = None) -> None:
        self._push = push
        self.pass_chunks = pass_chunks

    def push(self, read: bytes) -> bool:
        return self._push(read)
