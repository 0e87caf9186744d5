"""Threads of AG-UI and of the Messages API: responses that follow one another, one at a time. Knows nothing of SQL."""

from dataclasses import dataclass
from typing import Any, Final

from translation.representation.json_types import Json

LAST_RUN_KEY: Final = "agui_run"
"""The key of a conversation's metadata that has the response id of the last run, if it is a thread of AG-UI."""

STATE_KEY: Final = "agui_state"
"""The key of a conversation that has the state of the thread, if there is one."""

MESSAGE_THREAD_KEY: Final = "messages_thread"
"""The key of a response with the data of a thread of the Messages API. Other responses do not have this key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadTurn:
    """A response that is the next run of a thread of AG-UI, which is a conversation.

    `conversation` has the thread's items, and is created if it does not exist. `previous_run` is the response id of the
    last run that was known when this one was prepared, or None. Only the first `remaining_item_count` items of the
    conversation remain; None keeps all. `state` replaces the state of the thread; None removes it.
    """

    conversation: Json
    previous_run: str | None
    remaining_item_count: int | None = None
    state: Any = None
