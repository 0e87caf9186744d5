"""A sink made of functions."""

from collections.abc import Callable


class FakeSink:
    """`push` and `pass_chunk`, as they are given; `pass_chunk` may be set later."""

    def __init__(self, push: Callable[[bytes], bool], pass_chunk: Callable[[bytes], bool] | None = None) -> None:
        self._push = push
        self.pass_chunk = pass_chunk

    def push(self, read: bytes) -> bool:
        return self._push(read)
