"""The two views of one body: what the reply reads back to the client, and what the upstream is asked."""

from dataclasses import dataclass
from typing import Final

from gateway.planning.continuation import Continuation
from gateway.planning.resolver import Route
from providers.base import Dialect
from translation.errors import InvalidRequest
from translation.representation.json_types import Json

_OURS = ("previous_response_id", "conversation", "background", "resumable")
"""What only whoever keeps the state is told."""

SEALED_REASONING = "reasoning.encrypted_content"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """What a request wants kept. `background`: answered before it is done; `logged`: its stream can be resumed."""

    stored: bool = False
    background: bool = False
    logged: bool = False

    @property
    def detached(self) -> bool:
        """Whether it goes on without the client that asked for it."""
        return self.background or self.logged


NOTHING: Final = Keeping()


def keeping(dialect: Dialect, body: Json, *, resumable: bool) -> Keeping:
    """What a validated body wants of a server that has a store. `resumable`: whether the model's streams are unless the
    request says otherwise. Raises InvalidRequest for wishes that exclude each other."""
    if dialect == "chat":
        return Keeping(stored=body.get("store") is True)
    stored = body.get("store") is not False
    background, streams = bool(body.get("background")), bool(body.get("stream"))
    for name in ("background", "conversation", "resumable"):
        if body.get(name) and not stored:
            raise InvalidRequest(f"'{name}' needs a stored response: leave out 'store: false'.", param=name)
    if body.get("resumable") and not streams:
        raise InvalidRequest("'resumable' is about streams: send 'stream: true' with it.", param="resumable")
    asked = body.get("resumable")
    wanted = resumable if asked is None else bool(asked)
    return Keeping(stored=stored, background=background, logged=stored and streams and (background or wanted))


def shown(dialect: Dialect, body: Json, kept: Keeping) -> Json:
    """`body` as the reply reads it back: what was asked of this server's state, as it was done."""
    if dialect == "chat":
        return body
    view = body.copy()
    view["store"] = kept.stored
    view["background"] = kept.background
    if isinstance(conversation := body.get("conversation"), str):
        view["conversation"] = {"id": conversation}
    return view


def asked(dialect: Dialect, body: Json, route: Route, kept: Keeping, state: Continuation | None) -> Json:
    """`body` as the upstream is asked: nothing is kept there, and whatever was said before is said again."""
    if dialect == "chat":
        # OpenAI takes metadata only with what it stores itself.
        return (
            {name: value for name, value in body.items() if name not in ("store", "metadata")} if kept.stored else body
        )
    view = {name: value for name, value in body.items() if name not in _OURS}
    view["store"] = False
    if state is not None and state.earlier is not None:
        view["input"] = state.context
    if kept.stored and route.capabilities.sealed_reasoning and SEALED_REASONING not in (body.get("include") or ()):
        view["include"] = [*(body.get("include") or ()), SEALED_REASONING]
    if kept.detached:
        # Nobody waits on a connection: what takes long is better watched piece by piece.
        view["stream"] = route.capabilities.streaming
    return view
