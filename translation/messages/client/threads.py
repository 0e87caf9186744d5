"""Threads of the Messages API: the parameters that a thread stores, and the body of a request that continues it.

A request that creates a thread has the whole conversation. One that continues it has the messages since the reply that
it names; system prompt and tools come from the request that created the thread. Source: `anthropic` 2.12.0,
types/beta/beta_thread_continue_params.py and lib/threads/_thread_state.py; the errors are types/thread_*_error.py, of
status 400 except `thread_not_found`, which is 404.
"""

from collections.abc import Mapping
from typing import Any, Final

from translation.errors import InvalidRequest
from translation.messages.client.lift import lift
from translation.messages.client.tool_changes import apply_tool_changes
from translation.representation.json_types import Json
from translation.representation.turn import Turn

THREAD_NOT_FOUND: Final = "thread_not_found"
"""Code of the errors upon which the API's clients send the whole conversation, as a new thread."""

THREAD_MISMATCH: Final = "thread_fingerprint_mismatch"

_STORED_PARAMS: Final = ("system", "tools")
"""The parameters that a thread stores. A request that continues it must not change them."""

_SENT_TOOLS: Final = "sent_tools"
"""The key of the stored tools as they were sent."""


def build_thread_state(body: Json, previous_state: Mapping[str, Any] | None = None) -> Json:
    """Returns what has to be stored with a reply so that a request can continue it, for the whole body of its request.

    Changes that messages have made to the tools are in the tools. The tools as the client sent them are kept beside
    them, if they differ. `previous_state` is that of the reply that the request continues; None for a new thread.
    """
    state = {name: body[name] for name in _STORED_PARAMS if body.get(name)}
    sent = state.get("tools") if previous_state is None else _sent_tools_of(previous_state)
    if tools := apply_tool_changes(body.get("tools") or (), body["messages"]):
        state["tools"] = tools
    if sent and sent != tools:
        state[_SENT_TOOLS] = sent
    return state


def restore_thread_params(body: Json, state: Json) -> Json:
    """Returns the body of a request that continues a thread with the parameters that the thread keeps.

    A client repeats its tools as it sent them, or as its messages have changed them. Raises InvalidRequest for a
    parameter that differs from the stored one.
    """
    for name in _STORED_PARAMS:
        accepted = [state.get(name), _sent_tools_of(state)] if name == "tools" else [state.get(name)]
        if body.get(name) and body[name] not in accepted:
            raise InvalidRequest(
                f"'{name}' differs from that of the thread: leave it out, or create a new thread with the whole "
                "conversation.",
                param=name,
                code=THREAD_MISMATCH,
            )
    return {**body, **{name: state[name] for name in _STORED_PARAMS if name in state}}


def _sent_tools_of(state: Mapping[str, Any]) -> list[Json] | None:
    sent: list[Json] | None = state.get(_SENT_TOOLS) or state.get("tools")
    return sent


def lift_thread_turn(body: Json) -> Turn:
    """Returns the turn for a body of `restore_thread_params`, or for one that creates a thread, without the history.

    Raises what `lift` raises.
    """
    return lift({name: value for name, value in body.items() if name != "thread"})
