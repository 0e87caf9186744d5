"""The properties of a run besides the input of its model: its ids, the version of its client, and its state."""

import re
from dataclasses import dataclass
from typing import Any, Final

from translation.agui.client_messages import NO_MESSAGES, SentMessages
from translation.representation.json_types import Json

PROTOCOL_VERSION: Final = "1.0"
"""The version of the protocol that the encoder writes for clients that have it."""

_VERSION: Final = re.compile(r"(\d{1,4})\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHead:
    """The ids and options of one run. `is_versioned` says that the client declared version 1.0 or later.

    Clients of 0.0.x declare no version. They refuse a stream with an event or an outcome that they do not know, so they
    get only events that all of them know.
    """

    thread_id: str
    run_id: str
    parent_run_id: str | None = None
    is_versioned: bool = False
    state: Any = None
    is_state_restored: bool = False
    """Whether the state is the stored one of the thread, which the client does not have."""
    sent: SentMessages = NO_MESSAGES
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
            sent=SentMessages.read(body["messages"]),
            sends_raw_events=bool(props.get("raw_events")),
        )


def is_versioned(body: Json) -> bool:
    """Whether the client of a validated run declares version 1.0 or later."""
    version = _VERSION.match(body.get("protocolVersion") or "")
    return version is not None and int(version[1]) >= 1


def choose_state(body: Json, stored: Any) -> Any:
    """Returns the initial state of a validated run: the client's, or else the stored one of its thread.

    A client without a state sends none, or an empty one, as the official clients do at first. It gets the stored state,
    unless it explicitly requests none.
    """
    sent = body.get("state")
    if not is_empty_state(sent):
        return sent
    props = body.get("forwardedProps") or {}
    return None if props.get("reset_state") else stored


def is_empty_state(state: Any) -> bool:
    """Whether a state is empty."""
    return state is None or state in ({}, [], "")
