"""Where ids come from: injected, because translation has no randomness of its own."""

from typing import Protocol


class NewId(Protocol):
    def __call__(self, prefix: str, /) -> str:
        """A new id that starts with `prefix` and an underscore: `msg_…`, `rs_…`, `fc_…`, `call_…`, `resp_…`."""
        ...
