"""Maps parameters of a turn to their names and positions in the client's own request."""

import re
from collections.abc import Callable, Mapping

from gateway.errors import TurnFailed
from providers.base import Dialect
from providers.errors import ContextLengthExceeded
from translation.decoding.context_overflow import CONTEXT_OVERFLOW
from translation.errors import InvalidRequest
from translation.gemini.client.param_names import name_param as name_gemini_param
from translation.ollama.client.param_names import name_ollama_param
from translation.representation.events import Failed
from translation.representation.json_types import Json
from translation.representation.turn import Turn

_CHAT_NAMES = {
    "input": "messages",
    "max_output_tokens": "max_completion_tokens",
    "reasoning": "reasoning_effort",
    "text": "response_format",
}
"""Maps a turn's parameters, named as in the Responses API, to their names in chat."""

_LEGACY_NAMES = {"tools": "functions", "parallel_tool_calls": "functions", "tool_choice": "function_call"}
"""Maps parameters to chat's legacy form with `functions`, in which only one function is called at a time."""

_MESSAGES_NAMES = {
    "input": "messages",
    "instructions": "system",
    "max_output_tokens": "max_tokens",
    "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
    "reasoning": "thinking",
    "reasoning.effort": "output_config.effort",
    "reasoning.max_tokens": "thinking.budget_tokens",
    "safety_identifier": "metadata.user_id",
    "stop": "stop_sequences",
    "text": "output_config.format",
    "user": "metadata.user_id",
}
"""Maps a turn's parameters, or the first step of their paths, to their names in the Messages API."""

_BLOCK_KEYS = {"image_url": "source", "file_url": "source", "file_data": "source", "filename": "title"}
"""Maps the keys of a turn's parts to keys of content blocks of the Messages API."""

_SERVER_KEYS = {
    ".authorization": "mcp_servers.authorization_token",
    ".server_label": "mcp_servers.name",
    ".server_url": "mcp_servers.url",
}
"""Maps the keys of a turn's `mcp` tools to keys of the Messages API, in which servers are no tools."""

_SEARCH_FILTERS = ".filters"
"""The key of a turn's search tools whose keys are keys of the tool itself in the Messages API."""

_BLOCK_KEY = re.compile(rf"\.({'|'.join(_BLOCK_KEYS)})$")

_TOKEN_LIMIT = "max_completion_tokens"
_LEGACY_TOKEN_LIMIT = "max_tokens"
"""Chat's deprecated name of the token limit, which clients still send."""

_OWN_NAMES: Mapping[Dialect, Callable[[str, str, str, Json], tuple[str, str, str]]] = {
    "gemini": name_gemini_param,
    "ollama": name_ollama_param,
}
"""The functions that find names for APIs whose bodies have another form."""

_INPUT_KEYS: dict[Dialect, str] = {
    "chat": "messages",
    "responses": "input",
    "messages": "messages",
    "gemini": "contents",
    "ollama": "messages",
}

_TOKEN_LIMITS = frozenset({"max_output_tokens", _TOKEN_LIMIT, _LEGACY_TOKEN_LIMIT})

_PARAM_PATH = re.compile(r"(\w+)(\[\d+\])?(.*)")


class ClientParams:
    """Finds the client's names for parameters of one turn. A turn uses the names of the Responses API and item indexes.

    The first `history_count` items are history. An error in one of them is reported for the whole input, since the
    request itself does not contain the item.
    """

    def __init__(self, dialect: Dialect, body: Json, turn: Turn, history_count: int = 0) -> None:
        self._history_count = history_count
        self._dialect = dialect
        self._input_key = _INPUT_KEYS[dialect]
        self._body = body
        self._first_server: int | None = None
        """The index of the first `mcp` tool. They come last, and are not lifted from tools of the Messages API."""
        if dialect == "messages" and turn.tools and turn.tools[-1].get("type") == "mcp":
            self._first_server = next(i for i, tool in enumerate(turn.tools) if tool.get("type") == "mcp")
        self._item_count = len(turn.items)  # only the count, so that the items can be freed before the reply ends

    def find_client_name(self, param: str | None) -> str | None:
        """Returns the client's name for the parameter of an error or a loss, as exactly as possible.

        A parameter that the client's body has under the same name keeps it.
        """
        match = _PARAM_PATH.fullmatch(param or "")
        if match is None:
            return param
        name, place, rest = match.group(1), match.group(2) or "", match.group(3)
        if self._first_server is not None and name == "tools" and place and int(place[1:-1]) >= self._first_server:
            return _SERVER_KEYS.get(rest, "mcp_servers")
        if (find_name := _OWN_NAMES.get(self._dialect)) is not None:
            name, place, rest = find_name(name, place, rest, self._body)
        elif self._dialect == "messages" and name not in self._body:
            name, place, rest = self._messages_name(name, place, rest)
        elif self._dialect == "messages" and name == "tools":
            rest = rest.removeprefix(_SEARCH_FILTERS)
        elif self._dialect == "chat" and name not in self._body:
            name, place, rest = self._chat_name(name, place, rest)
        elif self._dialect == "chat" and name == "tools" and place and int(place[1:-1]) >= len(self._body[name] or ()):
            return "web_search_options"  # lifted as the last of the turn's tools
        elif self._dialect == "responses" and param == "reasoning.summary":
            return f"reasoning.{self._summary_key()}"
        if name == self._input_key and not self._items_match_input:
            return name
        if name == self._input_key and place and self._history_count:
            position = int(place[1:-1]) - self._history_count
            return f"{name}[{position}]{rest}" if position >= 0 else name
        return f"{name}{place}{rest}"

    def rename_param_of(self, error: InvalidRequest) -> None:
        """Changes an error's parameter to the client's name, also where the message quotes it."""
        client_name = self.find_client_name(error.param)
        error.message = error.message.replace(f"'{error.param}'", f"'{client_name}'")
        if self._dialect == "messages" and client_name in _SERVER_KEYS.values():
            # Errors of the Messages API have no field for the parameter.
            error.message = f"{client_name}: {error.message}"
        error.args = (error.message,)
        error.param = client_name

    @property
    def _items_match_input(self) -> bool:
        """Whether item indexes are indexes of the client's input. One message may become several items, or none."""
        entries = self._body.get(self._input_key)
        return isinstance(entries, list) and len(entries) == self._item_count

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

    def _messages_name(self, name: str, place: str, rest: str) -> tuple[str, str, str]:
        if name == "reasoning" and not rest and not self._body.get("thinking"):
            return "output_config", "", ".effort"
        if name == "text" and self._body.get("output_format") is not None:
            return "output_format", "", ""
        if (whole := _MESSAGES_NAMES.get(name + rest)) is not None:
            return whole, place, ""
        rest = _BLOCK_KEY.sub(lambda key: f".{_BLOCK_KEYS[key[1]]}", rest)
        if name in _MESSAGES_NAMES:
            return _MESSAGES_NAMES[name], place, "" if name in ("reasoning", "text") else rest
        return name, place, rest

    def _summary_key(self) -> str:
        reasoning = self._body.get("reasoning") or {}
        return "summary" if reasoning.get("summary") is not None else "generate_summary"


class OverflowParams:
    """Names the parameter of errors about prompts that exceed the model's context.

    Upstreams name the parameter as in their own API, or not at all. Clients get the name of their endpoint's input, or
    of its token limit if the upstream refused the limit.
    """

    def __init__(self, dialect: Dialect, input_key: str | None = None) -> None:
        """`input_key` is the name of the endpoint's input, if it differs from the dialect's."""
        self._dialect = dialect
        self._input_key = input_key or _INPUT_KEYS[dialect]

    def name_param_of(self, error: Exception) -> None:
        """Changes the parameter of an exception, if it is about the context."""
        if isinstance(error, ContextLengthExceeded):
            error.param = self._name(error.param)
        elif isinstance(error, TurnFailed):
            self.name_param_of_failure(error.failed)
            error.param = error.failed.param

    def name_param_of_failure(self, failed: Failed) -> None:
        """Changes the parameter of a failure, if it is about the context."""
        if failed.code == CONTEXT_OVERFLOW:
            failed.param = self._name(failed.param)

    def _name(self, param: str | None) -> str:
        if param in _TOKEN_LIMITS:
            return "max_output_tokens" if self._dialect == "responses" else param
        return self._input_key
