"""Parameters under the names and places that the client's own request has them."""

import re

from providers.base import Dialect
from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.representation.turn import Turn

_CHAT_NAMES = {
    "input": "messages",
    "max_output_tokens": "max_completion_tokens",
    "reasoning": "reasoning_effort",
    "text": "response_format",
}
"""Names a turn's parameters have in the Responses API -> their names in chat."""

_FUNCTION_NAMES = {"tools": "functions", "parallel_tool_calls": "functions", "tool_choice": "function_call"}
"""Likewise where chat is spoken in its old form; that one function is called at a time is part of it."""

_LIMIT = "max_completion_tokens"
_OLD_LIMIT = "max_tokens"
"""Chat's name for the same, which clients still send."""

_LISTS: dict[Dialect, str] = {"chat": "messages", "responses": "input"}

_ENTRY = re.compile(r"(\w+)(\[\d+\])?(.*)")


class ClientParams:
    """Turns say things in the Responses API's words and count items; this says them in the client's.

    The first `earlier` items are history: whatever is wrong with one came with what the request goes on from.
    """

    def __init__(self, dialect: Dialect, body: Json, turn: Turn, earlier: int = 0) -> None:
        self._earlier = earlier
        self._dialect = dialect
        self._list = _LISTS[dialect]
        self._body = body
        self._item_count = len(turn.items)  # the items themselves need not live as long as the reply

    def named(self, param: str | None) -> str | None:
        """The parameter of a failure or a loss, as exactly as it can be told.

        What the client wrote itself keeps its name.
        """
        found = _ENTRY.fullmatch(param or "")
        if found is None:
            return param
        name, place, rest = found.group(1), found.group(2) or "", found.group(3)
        if self._dialect == "chat" and name not in self._body:
            name, place, rest = self._in_chat(name, place, rest)
        elif self._dialect == "chat" and name == "tools" and place and int(place[1:-1]) >= len(self._body[name] or ()):
            return "web_search_options"  # which a turn has as the last of its tools
        elif self._dialect == "responses" and param == "reasoning.summary":
            return f"reasoning.{self._summary()}"
        if name == self._list and not self._in_step:
            return name
        if name == self._list and place and self._earlier:
            position = int(place[1:-1]) - self._earlier
            return f"{name}[{position}]{rest}" if position >= 0 else name
        return f"{name}{place}{rest}"

    def rename(self, refused: InvalidRequest) -> None:
        """Name what was refused as the client named it, in the message too where it stands in quotes."""
        named = self.named(refused.param)
        refused.message = refused.message.replace(f"'{refused.param}'", f"'{named}'")
        refused.args = (refused.message,)
        refused.param = named

    @property
    def _in_step(self) -> bool:
        """One message may be several items, and some entries of an input are none."""
        given = self._body.get(self._list)
        return isinstance(given, list) and len(given) == self._item_count

    def _in_chat(self, name: str, place: str, rest: str) -> tuple[str, str, str]:
        if name == "text" and rest == ".verbosity":
            return "verbosity", "", ""
        if name in _CHAT_NAMES:
            name, rest = _CHAT_NAMES[name], ""
        if name == _LIMIT and name not in self._body and _OLD_LIMIT in self._body:
            name = _OLD_LIMIT
        if name == "thinking":
            return "reasoning", "", ".enabled"
        if self._body.get("functions") and name in _FUNCTION_NAMES:
            return _FUNCTION_NAMES[name], place, rest
        if self._body.get("web_search_options") is not None and name == "tools":
            return "web_search_options", "", rest
        return name, place, rest

    def _summary(self) -> str:
        asked = self._body.get("reasoning") or {}
        return "summary" if asked.get("summary") is not None else "generate_summary"
