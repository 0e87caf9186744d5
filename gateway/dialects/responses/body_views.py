"""Views of a body of the Responses API: the one that its response echoes, and the one that goes upstream."""

from collections.abc import Sequence
from typing import Final

from gateway.replies.endpoints import PeekedOptions, UpstreamInput
from translation.representation.json_types import Item, Json
from translation.representation.profile import Profile
from translation.responses.client.facts import SEALED_REASONING

_STATE_PARAMS: Final = frozenset({"previous_response_id", "conversation", "background", "resumable"})
"""Parameters about stored state. They are removed before the request goes upstream, because the gateway keeps the
state."""


def echo_body(is_stored: bool, in_background: bool, body: Json, profile: Profile) -> Json:
    """Returns the body as its response echoes it: parameters that the gateway decides have their effective values."""
    view = echo_storage(body, is_stored, in_background)
    if body.get("parallel_tool_calls") is None and profile.parallel_tool_calls is not None:
        view["parallel_tool_calls"] = profile.parallel_tool_calls
    return view


def echo_storage(body: Json, is_stored: bool, in_background: bool) -> Json:
    """Returns the body with the effective values of parameters about its storage, which no upstream decides."""
    view = body.copy()
    view["store"] = is_stored
    view["background"] = in_background
    if isinstance(conversation := body.get("conversation"), str):
        view["conversation"] = {"id": conversation}
    return view


def continue_body(body: Json, upstream: UpstreamInput) -> Json:
    """Returns the body for the upstream, which stores nothing: it has the whole history as its input."""
    view = {name: value for name, value in body.items() if name not in _STATE_PARAMS}
    view["store"] = False
    if upstream.items is not None:
        view["input"] = upstream.items
    if upstream.adds_sealed_reasoning:
        view["include"] = [*(body.get("include") or ()), SEALED_REASONING]
    if upstream.streams is not None:
        view["stream"] = upstream.streams
    return view


def set_input(body: Json, items: Sequence[Item]) -> Json:
    """Returns the body with these items as its input."""
    return {**body, "input": [*items]}


def remove_input(body: Json) -> Json:
    """Returns the body without its input."""
    return {name: value for name, value in body.items() if name != "input"}


def peek_options(body: Json) -> PeekedOptions:
    """Returns what a body says about its response, whether the body is valid or not."""
    return PeekedOptions(is_stored=body.get("store") is not False, streams=bool(body.get("stream")))
