"""The short way of deltas through the gateway: compiled where `core/` is installed, else in Python."""

from collections.abc import Callable

from gateway.http_protocol import Client
from providers.incoming import Alike
from translation.chat.passing import Passing
from translation.responses.retelling import Retelling

try:
    from gateway_core import Passed, Retold
except ImportError:
    from gateway.passages import Passed, Retold  # type: ignore[assignment]


def passage(alike: Alike[bytes] | None, client: Client | None) -> Callable[[bytes], bool] | None:
    """A `Sink.pass_chunks` for what is alike; None where there is none."""
    if client is None:
        return None
    if isinstance(alike, Retelling):
        return Retold(alike, client).pass_chunks
    if isinstance(alike, Passing):
        return Passed(alike, client).pass_chunks
    return None
