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

_LEGACY_NAMES = {"tools": "functions", "parallel_tool_calls": "functions", "tool_choice": "function_call"}
"""Likewise where chat is spoken in its old form; that one function is called at a time is part of it."""

_TOKEN_LIMIT = "max_completion_tokens"
_LEGACY_TOKEN_LIMIT = "max_tokens"
"""Chat's name for the same, which clients still send."""

_INPUT_KEYS: dict[Dialect, str] = {"chat": "messages", "responses": "input"}

_PARAM_PATH = re.compile(r"(\w+)(\[\d+\])?(.*)")


class ClientParams:
    """Turns say things in the Responses API's words and count items; this says them in the client's.

    The first `earlier` items are history: whatever is wrong with one came with what the request goes on from.
    """

    def __init__(self, dialect: Dialect, body: Json, turn: Turn, history_count: int = 0) -> None:
        self._history_count = history_count
        self._dialect = dialect
        self._input_key = _INPUT_KEYS[dialect]
        self._body = body
        self._item_count = len(turn.items)  # the items themselves need not live as long as the reply

    def client_name(self, param: str | None) -> str | None:
        """The parameter of a failure or a loss, as exactly as it can be told.

        What the client wrote itself keeps its name.
        """
        found = _PARAM_PATH.fullmatch(param or "")
        if found is None:
            return param
        name, place, rest = found.group(1), found.group(2) or "", found.group(3)
        if self._dialect == "chat" and name not in self._body:
            name, place, rest = self._chat_name(name, place, rest)
        elif self._dialect == "chat" and name == "tools" and place and int(place[1:-1]) >= len(self._body[name] or ()):
            return "web_search_options"  # which a turn has as the last of its tools
        elif self._dialect == "responses" and param == "reasoning.summary":
            return f"reasoning.{self._summary_key()}"
        if name == self._input_key and not self._items_match_input:
            return name
        if name == self._input_key and place and self._history_count:
            position = int(place[1:-1]) - self._history_count
            return f"{name}[{position}]{rest}" if position >= 0 else name
        return f"{name}{place}{rest}"

    def rename_param_of(self, error: InvalidRequest) -> None:
        """Name what was refused as the client named it, in the message too where it stands in quotes."""
        named = self.client_name(error.param)
        error.message = error.message.replace(f"'{error.param}'", f"'{named}'")
        error.args = (error.message,)
        error.param = named

    @property
    def _items_match_input(self) -> bool:
        """One message may be several items, and some entries of an input are none."""
        given = self._body.get(self._input_key)
        return isinstance(given, list) and len(given) == self._item_count

    def _chat_name(self, name: str, place: str, rest: str) -> tuple[str, str, str]:
        if name == "text" and rest == ".verbosity":
            return "verbosity", "", ""
        if name in _CHAT_NAMES:
            name, rest = _CHAT_NAMES[name], ""
        if name == _TOKEN_LIMIT and name not in self._body and _LEGACY_TOKEN_LIMIT in self._body:
            name = _LEGACY_TOKEN_LIMIT
        if name == "thinking":
            return "reasoning", "", ".enabled"
        if self._body.get("functions") and name in _LEGACY_NAMES:
            return _LEGACY_NAMES[name], place, rest
        if self._body.get("web_search_options") is not None and name == "tools":
            return "web_search_options", "", rest
        return name, place, rest

    def _summary_key(self) -> str:
        asked = self._body.get("reasoning") or {}
        return "summary" if asked.get("summary") is not None else "generate_summary"
