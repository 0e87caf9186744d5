"""The names of tools on the wire, where only flat functions exist, and the tools that they stand for."""

import re
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2s
from typing import Final, NamedTuple, TypeAlias

from translation.errors import InvalidRequest, Unrepresentable
from translation.representation.json_types import Json
from translation.representation.profile import ToolNameForm

NameCheck: TypeAlias = Callable[[str], object]
"""Returns something true for a name that the upstream accepts."""

_FORMS: Final[Mapping[ToolNameForm, NameCheck | None]] = {
    "openai": re.compile(r"[a-zA-Z0-9_-]{1,64}").fullmatch,
    "anthropic": re.compile(r"[a-zA-Z0-9_-]{1,128}").fullmatch,
    "gemini": re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}").fullmatch,
    "any": None,
}


def find_name_check(form: ToolNameForm) -> NameCheck | None:
    """Returns the check of names in a form; None if every name has it."""
    return _FORMS[form]


def require_function_name(tool: Json, param: str) -> str:
    """Returns the name of a function tool; see `require_tool_name`.

    Raises Unrepresentable for any other kind of tool.
    """
    if tool.get("type") != "function":
        raise Unrepresentable(f"this model's API has no tools of type {tool.get('type')!r}", param=param)
    return require_tool_name(tool, param)


def require_tool_name(tool: Json, param: str) -> str:
    """Returns the name of a tool, whose path is `param`. Its form is not checked: `rewrite_tools` has chosen it.

    Raises InvalidRequest for a name that is missing.
    """
    name = tool.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidRequest("A tool needs a name.", param=f"{param}.name")
    return name


_LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")


class ClientToolName(NamedTuple):
    """A tool as the client knows it. The name of kinds without names (shell, computer, …) is the kind."""

    kind: str
    name: str
    namespace: str | None = None


class ToolNames:
    """The mapping between wire names and callees of one turn.

    A wire name depends only on its callee and on the names that were claimed before it, so it stays the same from turn
    to turn.
    """

    def __init__(self, reserved: Iterable[ClientToolName] = (), check: NameCheck | None = None) -> None:
        """`reserved` are the tools that the upstream knows by their names. The form of these names is not checked.

        They are read when the first name is asked for, which most turns do not need. `check` is that of the upstream's
        form of names.
        """
        self._reserved = reserved
        self._check = check
        self._accepted_names: set[str] = set()
        """Names that the upstream accepts. A history names the same few tools again and again."""
        self._wire_names: dict[ClientToolName, str] = {}
        self._callees: dict[str, ClientToolName] = {}
        self._tools: dict[ClientToolName, Json] = {}
        self._used_names: set[str] = set()
        self._index: dict[str | tuple[str, str] | None, list[ClientToolName]] = {}
        """The tools of each namespace, and of each kind and name. It is built when a tool choice needs it."""
        self._indexed_count = 0

    def _reserve_names(self) -> None:
        for callee in self._reserved:
            self._wire_names[callee] = callee.name
            self._used_names.add(callee.name.casefold())
        self._reserved = ()

    def claim(self, callee: ClientToolName, tool: Json | None = None) -> str:
        """Returns the wire name of a callee. The first call chooses it: `name`, `namespace__name`, or a hashed form."""
        self._reserve_names()
        wire = self._wire_names.get(callee)
        if wire is None:
            wire = f"{callee.namespace}__{callee.name}" if callee.namespace else callee.name
            if not (self._check or _LEGAL.fullmatch)(wire) or wire.casefold() in self._used_names:
                wire = _hashed_name(callee)
            self._wire_names[callee] = wire
            self._callees[wire] = callee
            self._tools[callee] = tool or {}
            self._used_names.add(wire.casefold())
        return wire

    def keeps(self, name: str) -> bool:
        """Whether the upstream accepts a name of a tool that it knows the kind of."""
        if self._check is None or name in self._accepted_names:
            return True
        if not self._check(name):
            return False
        self._accepted_names.add(name)
        return True

    def wire_name(self, callee: ClientToolName) -> str | None:
        """Returns the wire name of a callee, or None if it has none."""
        self._reserve_names()
        return self._wire_names.get(callee)

    def callee(self, wire: str) -> ClientToolName | None:
        """Returns the callee of a wire name; `None` for a tool that keeps its name."""
        return self._callees.get(wire)

    def tool(self, callee: ClientToolName) -> Json:
        """Returns the tool object that a callee was claimed with."""
        return self._tools[callee]

    def callees_named(self, kind: str, name: str) -> list[ClientToolName]:
        """Returns all callees of a kind and name, in any namespace."""
        return self._find((kind, name))

    def callees_in(self, namespace: str) -> list[ClientToolName]:
        """Returns all callees in a namespace."""
        return self._find(namespace)

    def _find(self, key: str | tuple[str, str]) -> list[ClientToolName]:
        self._reserve_names()
        if self._indexed_count != len(self._wire_names):
            self._index, self._indexed_count = {}, len(self._wire_names)
            for callee in self._wire_names:
                self._index.setdefault((callee.kind, callee.name), []).append(callee)
                self._index.setdefault(callee.namespace, []).append(callee)
        return self._index.get(key, [])

    def __bool__(self) -> bool:
        """Whether any wire name was claimed, so that calls must be mapped back."""
        return bool(self._callees)


def _hashed_name(callee: ClientToolName) -> str:
    readable = _ILLEGAL.sub("_", "__".join(filter(None, (callee.namespace, callee.name))))
    digest = blake2s("\0".join((callee.kind, callee.namespace or "", callee.name)).encode(), digest_size=8).hexdigest()
    if not readable[0].isalpha():
        readable = f"_{readable}"  # the beginning that every form has
    return f"{readable[:47]}_{digest}"
