"""The two views of one body: what the reply reads back to the client, and what the upstream is asked."""

from dataclasses import dataclass
from typing import Final

from gateway.planning.continuation import Continuation
from gateway.planning.resolver import Route
from providers.base import Dialect
from translation.errors import InvalidRequest
from translation.representation.json_types import Json

_STATE_PARAMS = ("previous_response_id", "conversation", "background", "resumable")
"""What only whoever keeps the state is told."""

SEALED_REASONING = "reasoning.encrypted_content"


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageOptions:
    """What a request wants kept. `background`: answered before it is done; `logged`: its stream can be resumed."""

    stored: bool = False
    background: bool = False
    logged: bool = False

    @property
    def is_detached(self) -> bool:
        """Whether it goes on without the client that asked for it."""
        return self.background or self.logged


NOT_STORED: Final = StorageOptions()


def parse_storage_options(dialect: Dialect, body: Json, *, resumable: bool) -> StorageOptions:
    """What a validated body wants of a server that has a store. `resumable`: whether the model's streams are unless the
    request says otherwise. Raises InvalidRequest for wishes that exclude each other."""
    if dialect == "chat":
        return StorageOptions(stored=body.get("store") is True)
    stored = body.get("store") is not False
    background, is_streaming = bool(body.get("background")), bool(body.get("stream"))
    for name in ("background", "conversation", "resumable"):
        if body.get(name) and not stored:
            raise InvalidRequest(f"'{name}' needs a stored response: leave out 'store: false'.", param=name)
    if body.get("resumable") and not is_streaming:
        raise InvalidRequest("'resumable' is about streams: send 'stream: true' with it.", param="resumable")
    resumable_param = body.get("resumable")
    is_resumable = resumable if resumable_param is None else bool(resumable_param)
    return StorageOptions(
        stored=stored, background=background, logged=stored and is_streaming and (background or is_resumable)
    )


def build_echoed_body(dialect: Dialect, body: Json, storage: StorageOptions) -> Json:
    """`body` as the reply reads it back: what was asked of this server's state, as it was done."""
    if dialect == "chat":
        return body
    view = body.copy()
    view["store"] = storage.stored
    view["background"] = storage.background
    if isinstance(conversation := body.get("conversation"), str):
        view["conversation"] = {"id": conversation}
    return view


def build_upstream_body(
    dialect: Dialect, body: Json, route: Route, storage: StorageOptions, continuation: Continuation | None
) -> Json:
    """`body` as the upstream is asked: nothing is kept there, and whatever was said before is said again."""
    if dialect == "chat":
        # OpenAI takes metadata only with what it stores itself.
        return (
            {name: value for name, value in body.items() if name not in ("store", "metadata")}
            if storage.stored
            else body
        )
    view = {name: value for name, value in body.items() if name not in _STATE_PARAMS}
    view["store"] = False
    if continuation is not None and continuation.history_count is not None:
        view["input"] = continuation.context
    if storage.stored and route.capabilities.sealed_reasoning and SEALED_REASONING not in (body.get("include") or ()):
        view["include"] = [*(body.get("include") or ()), SEALED_REASONING]
    if storage.is_detached:
        # Nobody waits on a connection: what takes long is better watched piece by piece.
        view["stream"] = route.capabilities.streaming
    return view
