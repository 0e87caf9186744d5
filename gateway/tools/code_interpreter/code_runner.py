"""The interface of what runs code for a model."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from gateway.tools.executors.executor import OnProgress, ToolFault


class CodeCallFailed(ToolFault):
    """The code was not run, or its output cannot be read. The message is for the model."""


class CodeOutput(NamedTuple):
    """What the code wrote."""

    logs: str
    images: Sequence[str] = ()
    """Images as data URLs."""
    has_failed: bool = False
    """Whether the call failed. An exception in the code alone is no failure."""


class CodeRunner(Protocol):
    """Runs the code of one response."""

    @property
    def container_id(self) -> str:
        """The id of the place where it runs."""
        ...

    def list_secrets(self) -> Sequence[str]:
        """Returns its current credentials, which are removed from every text that leaves the gateway."""
        ...

    async def run(self, code: str, deadline_s: float, on_progress: OnProgress | None) -> CodeOutput:
        """Runs code. Raises CodeCallFailed."""
        ...
