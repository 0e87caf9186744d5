"""Two views of a request body: the one that the reply echoes to the client, and the one that goes upstream."""

from dataclasses import dataclass
from typing import Final

from gateway.planning.continuation import Continuation
from gateway.planning.resolver import Route
from providers.base import Dialect
from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.representation.profile import Profile

_STATE_PARAMS = ("previous_response_id", "conversation", "background", "resumable")
"""Parameters about stored state. They are removed before the request goes upstream, because the gateway keeps the
state."""

SEALED_REASONING = "reasoning.encrypted_content"
"""The value of `include` that asks for reasoning in a form that the client can send back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageOptions:
    """The options of a request for the store.

    `background` responses are answered before they are done. `logged` responses have their events in the event log, so
    that their streams can be resumed.
    """

    stored: bool = False
    background: bool = False
    logged: bool = False

    @property
    def is_detached(self) -> bool:
        """Whether the response continues if its client disconnects: it then runs as a job."""
        return self.background or self.logged


NOT_STORED: Final = StorageOptions()


def parse_storage_options(dialect: Dialect, body: Json, *, resumable: bool, has_key: bool = False) -> StorageOptions:
    """Returns the storage options of a validated body, for a server that has a store.

    `resumable` is the model's default for the parameter of that name. `has_key` says that the request has an
    idempotency key: repeated requests may follow its response. Raises InvalidRequest for options that exclude each
    other.
    """
    if dialect == "chat":
        return StorageOptions(stored=body.get("store") is True)
    stored = body.get("store") is not False
    background, is_streaming = bool(body.get("background")), bool(body.get("stream"))
    for name in ("background", "resumable"):
        if body.get(name) and not stored:
            raise InvalidRequest(f"'{name}' needs a stored response: leave out 'store: false'.", param=name)
    if body.get("resumable") and not is_streaming:
        raise InvalidRequest("'resumable' is about streams: send 'stream: true' with it.", param="resumable")
    resumable_param = body.get("resumable")
    is_resumable = resumable if resumable_param is None else bool(resumable_param)
    return StorageOptions(
        stored=stored,
        background=background,
        logged=stored and (has_key or (is_streaming and (background or is_resumable))),
    )


def build_echoed_body(dialect: Dialect, body: Json, storage: StorageOptions, profile: Profile) -> Json:
    """Returns the body as the reply echoes it: parameters that the gateway decides have their effective values."""
    if dialect != "responses":
        return body
    view = body.copy()
    if body.get("parallel_tool_calls") is None and profile.parallel_tool_calls is not None:
        view["parallel_tool_calls"] = profile.parallel_tool_calls
    view["store"] = storage.stored
    view["background"] = storage.background
    if isinstance(conversation := body.get("conversation"), str):
        view["conversation"] = {"id": conversation}
    return view


def build_upstream_body(
    dialect: Dialect, body: Json, route: Route, storage: StorageOptions, continuation: Continuation | None
) -> Json:
    """Returns the upstream request body. The upstream stores nothing, so the body has the whole history as its input.

    `previous_response_id` and the other parameters about stored state are removed, because the gateway keeps the state.
    """
    if dialect == "chat":
        # OpenAI accepts `metadata` only together with `store: true`.
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
        # No client waits for a job. A stream proves that a long run is alive, and delivers its output in pieces.
        view["stream"] = route.capabilities.streaming
    return view
