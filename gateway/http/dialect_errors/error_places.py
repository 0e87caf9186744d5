"""Adds the place of a fault to messages, for APIs whose errors have no key for the field at fault."""

import re
from typing import Final

from gateway.error_replies import choose_client_message

_ENTRY: Final = re.compile(r"[^\[\]]+\[\d+\]")
"""Matches the entry of a list at the beginning of a path: `messages[1]` of `messages[1].content[0]`."""


def build_message_with_place(error: Exception) -> str:
    """Returns the message that the client may read. A place within a list is put before it, unless the message names
    the entry. Messages name other fields themselves."""
    message, param = choose_client_message(error), getattr(error, "param", None)
    entry = _ENTRY.match(param) if isinstance(param, str) else None
    return message if entry is None or entry[0] in message else f"{param}: {message}"
