"""What a run is, apart from the input of its model: its ids, the version of its client, and its state."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from translation.representation.json_types import Json

PROTOCOL_VERSION: Final = "1.0"
"""The version of the protocol that the encoder writes for clients that have it."""

_VERSION: Final = re.compile(r"(\d{1,4})\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHead:
    """The ids and options of one run.

    `is_versioned` says that the client declared version 1.0 or later. Clients of 0.0.x declare none. They refuse a
    stream with an event or an outcome that they do not know, so they get only what all of them know.
    """

    thread_id: str
    run_id: str
    parent_run_id: str | None = None
    is_versioned: bool = False
    state: Any = None
    is_state_restored: bool = False
    """Whether the state is that of the thread, which the client does not have."""
    messages: Sequence[Json] = ()
    """The messages of the client."""
    sends_raw_events: bool = False
    """Whether events of the upstream without a meaning here are sent as RAW."""

    @classmethod
    def from_input(cls, body: Json) -> "RunHead":
        """Returns the head of a validated body."""
        props = body.get("forwardedProps") or {}
        return cls(
            thread_id=body["threadId"],
            run_id=body["runId"],
            parent_run_id=body.get("parentRunId"),
            is_versioned=is_versioned(body),
            state=body.get("state"),
            messages=body["messages"],
            sends_raw_events=bool(props.get("raw_events")),
        )


def is_versioned(body: Json) -> bool:
    """Whether the client of a validated run declares version 1.0 or later."""
    version = _VERSION.match(body.get("protocolVersion") or "")
    return version is not None and int(version[1]) >= 1


def choose_state(body: Json, stored: Any) -> Any:
    """Returns the state that a validated run starts from: that of its client, or else that of its thread.

    A client without a state sends none, or an empty one, as the official clients do before they have any. It gets the
    stored one, unless it asks for none.
    """
    sent = body.get("state")
    if not is_empty_state(sent):
        return sent
    props = body.get("forwardedProps") or {}
    return None if props.get("reset_state") else stored


def is_empty_state(state: Any) -> bool:
    """Whether a state says nothing."""
    return state is None or state in ({}, [], "")
