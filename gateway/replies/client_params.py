"""Maps parameters of a turn to their names and positions in the client's own request."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from gateway.errors import TurnFailed
from providers.errors import ContextLengthExceeded, UpstreamRejected
from translation.decoding.context_overflow import CONTEXT_OVERFLOW
from translation.errors import InvalidRequest
from translation.representation.events import Failed
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.param_names import ParamNames
from translation.representation.turn import Turn

_TOKEN_LIMITS: Final = frozenset({"max_output_tokens", "max_completion_tokens", "max_tokens"})

_NOT_RENAMED: Final[Mapping[str, str]] = {}

_PARAM_PATH: Final = re.compile(r"(\w+)(\[\d+\])?(.*)")

_TURN_INPUT: Final = "input"
"""The name of a turn's items."""


class ClientParams:
    """Finds the client's names for parameters of one turn. A turn uses the names of the Responses API and item indexes.

    The first `history_count` items are history. An error in one of them is reported for the whole input, since the
    request itself does not contain the item.
    """

    def __init__(self, names: ParamNames, body: Json, turn: Turn, history_count: int = 0) -> None:
        self._names = names
        self._history_count = history_count
        self._body = body
        self._first_server: int | None = None
        """The index of the first `mcp` tool, in an API in which servers are no tools. They come last."""
        if names.servers and turn.tools and turn.tools[-1].get("type") == "mcp":
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
        servers = self._names.servers
        if self._first_server is not None and name == "tools" and place and int(place[1:-1]) >= self._first_server:
            return servers.get(rest, servers[""])
        name, place, rest = self._names.find(name, place, rest, self._body)
        if name == self._names.input and not self._items_match_input:
            return name
        if name == self._names.input and place and self._history_count:
            position = int(place[1:-1]) - self._history_count
            return f"{name}[{position}]{rest}" if position >= 0 else name
        return f"{name}{place}{rest}"

    def rename_losses(self, losses: Sequence[Loss]) -> list[Loss]:
        """Returns losses with the client's names of their parameters."""
        return [self._rename_loss(loss) for loss in losses]

    def _rename_loss(self, loss: Loss) -> Loss:
        client_name = self.find_client_name(loss.param) or loss.param
        path, _, inner_key = loss.param.rpartition(".")
        is_cut = "." not in client_name and path.startswith((_TURN_INPUT, self._names.input))
        # Without the key, a loss of the detail of an image would read as one of the message, or of all messages.
        return Loss(client_name, f"{inner_key} {loss.effect}" if is_cut else loss.effect)

    def rename_param_of(self, error: InvalidRequest) -> None:
        """Changes an error's parameter to the client's name, also where the message quotes it."""
        client_name = self.find_client_name(error.param)
        error.message = error.message.replace(f"'{error.param}'", f"'{client_name}'")
        if client_name in self._names.servers.values():
            error.message = f"{client_name}: {error.message}"
        error.args = (error.message,)
        error.param = client_name

    @property
    def _items_match_input(self) -> bool:
        """Whether item indexes are indexes of the client's input. One message may become several items, or none."""
        entries = self._body.get(self._names.input)
        return isinstance(entries, list) and len(entries) == self._item_count


class RejectionParams:
    """Names the parameters of errors that an upstream reports in the client's words.

    Upstreams name what they were sent, or nothing. A parameter that the client's body does not have is left out: the
    gateway, or an operator's default, has set it. Errors about prompts that exceed the model's context always have a
    parameter: the endpoint's input, or its token limit if the upstream refused the limit. `renamed` maps parameters of
    `body` to those of a request that the body was adapted from.
    """

    def __init__(self, names: ParamNames, body: Json, renamed: Mapping[str, str] = _NOT_RENAMED) -> None:
        self._names = names
        self._body = body
        self._renamed = renamed

    def name_param_of(self, error: Exception) -> None:
        """Changes the parameter of an upstream's error."""
        if isinstance(error, UpstreamRejected):
            is_overflow = isinstance(error, ContextLengthExceeded)
            error.param = self._name_limit(error.param) if is_overflow else self._find_own(error.param)
        elif isinstance(error, TurnFailed):
            self.name_param_of_failure(error.failed)
            error.param = error.failed.param

    def name_param_of_failure(self, failed: Failed) -> None:
        """Changes the parameter of a failure."""
        is_overflow = failed.code == CONTEXT_OVERFLOW
        failed.param = self._name_limit(failed.param) if is_overflow else self._find_own(failed.param)

    def _name_limit(self, param: str | None) -> str:
        if param in _TOKEN_LIMITS:
            return self._names.overflow_limit or param
        return self._names.overflow_input

    def _find_own(self, param: str | None) -> str | None:
        """Returns the client's parameter, as much of its path as the client's body has; None if it has none of it."""
        match = _PARAM_PATH.fullmatch(param or "")
        if match is None:
            return None
        name, place, rest = match.group(1), match.group(2) or "", match.group(3)
        if name not in self._body:
            name, place, rest = self._names.find(name, place, rest, self._body)
        path = f"{name}{place}{rest}" if place else self._cut_path(f"{name}{rest}".split("."))
        if path is None or name.partition(".")[0] not in self._body:
            return None
        return self._renamed.get(path, path)

    def _cut_path(self, keys: Sequence[str]) -> str | None:
        known = 0
        value: object = self._body
        for key in keys:
            if not (isinstance(value, dict) and key.partition("[")[0] in value):
                break
            value = value[key.partition("[")[0]]
            known += 1
        return ".".join(keys[:known]) or None
