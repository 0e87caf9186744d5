"""The tools that the gateway calls, such as those of MCP servers, and their names for models."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Final, NamedTuple

import orjson

from translation.hosted.call_forms import MCP_FORM, CallForm
from translation.representation.json_types import Json

_MAX_NAME_CHARS: Final = 64
_ILLEGAL: Final = re.compile(r"[^a-zA-Z0-9_-]")
_DIGEST_CHARS: Final = 8


class ToolKey(NamedTuple):
    """Identifies a tool: the label of its server, and its name there."""

    server: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedTool:
    """One tool of a server. `parameters` is the JSON schema of its arguments."""

    key: ToolKey
    parameters: Json
    description: str | None = None
    is_read_only: bool = False
    """The server's hint that the tool changes nothing. An untrusted server may give it falsely."""
    needs_approval: bool = True
    origin: str = ""
    """The address of its server. An approval is valid for one origin."""
    prefix: str | None = None
    """The prefix of its name for models. None stands for the label of its server; an empty text is no prefix."""
    form: CallForm = MCP_FORM
    """The items by which clients see its calls."""
    choice_type: str = "mcp"
    """The `type` of the tool of a request that it comes from, by which a tool choice names it."""
    is_deferred: bool = False
    """Whether the model sees it only once a search has loaded it, if there is such a search."""
    is_repeatable: bool = False
    """Whether a call may be sent a second time if the outcome of the first is not known."""
    checks_arguments: bool = True
    """Whether arguments have to fit the schema. Otherwise the executor judges them, and takes other forms too."""
    trained_name: str | None = None
    """The name by which some models know the tool from their training, such as `browser.search`."""
    adapt_arguments: Callable[[str], str] | None = None
    """Returns the arguments of a past call in the form that the model knows here; None if there is one form only."""

    @property
    def definition_digest(self) -> str:
        """A digest of everything that an approval of a call relies on: origin, name, description and schema."""
        parts = [self.origin, *self.key, self.description, self.parameters]
        return sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()


def digest_arguments(arguments: str) -> str:
    """Returns a digest of the arguments of a call, the same for the same JSON value however it is written.

    For arguments that are no JSON, or are nested too deep to be written again, it is the digest of the text.
    """
    try:
        canonical = orjson.dumps(orjson.loads(arguments), option=orjson.OPT_SORT_KEYS)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        canonical = arguments.encode(errors="surrogatepass")
    return sha256(canonical).hexdigest()


def model_name_of(key: ToolKey, prefix: str | None = None) -> str:
    """Returns the model's name of a tool: `<prefix>_<name>`, in at most 64 letters, digits, `_` and `-`.

    The prefix defaults to the label of the server. Without a prefix it is the name alone. A name that has to be changed
    gets a digest at its end, so that two different tools have different names.
    """
    prefix = key.server if prefix is None else prefix
    plain = f"{prefix}_{key.name}" if prefix else key.name
    legal = _ILLEGAL.sub("_", plain)
    return plain if legal == plain and len(plain) <= _MAX_NAME_CHARS else _shorten(legal, key)


def _prefix_of(tool: HostedTool) -> str:
    return tool.key.server if tool.prefix is None else tool.prefix


def _shorten(legal: str, key: ToolKey, attempt: int = 0) -> str:
    digest = sha256("\0".join([*key, "!" * attempt]).encode()).hexdigest()[:_DIGEST_CHARS]
    return f"{legal[: _MAX_NAME_CHARS - _DIGEST_CHARS - 1]}_{digest}"


@dataclass(frozen=True)
class ToolCatalogue:
    """The tools of one response, by their names for the model. It never changes."""

    tools: Mapping[str, HostedTool] = field(default_factory=dict)
    own_tools: Mapping[str, HostedTool] = field(default_factory=dict)
    """Tools of the gateway itself, which are offered only where there is something for them to do."""

    @classmethod
    def build(
        cls, tools: Iterable[HostedTool], reserved_names: Iterable[str] = (), own_tools: Iterable[HostedTool] = ()
    ) -> "ToolCatalogue":
        """Returns the catalogue of these tools, in their order. `reserved_names` are those of the client's functions.

        A tool whose name is taken gets a name with a digest. Of two tools with one key the first one counts.
        """
        used = {name.casefold() for name in reserved_names}
        return cls(_name_tools(tools, used), _name_tools(own_tools, used))

    def find(self, model_name: str) -> HostedTool | None:
        """Returns the tool with this name for the model; None if there is none."""
        return self.tools.get(model_name) or self.own_tools.get(model_name)

    def name_of(self, key: ToolKey) -> str:
        """Returns the model's name of a tool, even if it is no longer listed."""
        name = self._names.get(key)
        return model_name_of(key, self._prefixes.get(key.server)) if name is None else name

    def adapt_arguments(self, key: ToolKey, arguments: str) -> str:
        """Returns the arguments of a past call in the form in which its tool has them here."""
        tool = self.find(self.name_of(key))
        return arguments if tool is None or tool.adapt_arguments is None else tool.adapt_arguments(arguments)

    @cached_property
    def trained_names(self) -> Mapping[str, str]:
        """The name of each tool that models know from their training, by its name as a function."""
        return {name: tool.trained_name for name, tool in self.tools.items() if tool.trained_name is not None}

    def guess_key(self, model_name: str) -> ToolKey:
        """Returns a key for a tool that does not exist: of the server whose prefix its name has, or else of the first
        server."""
        servers = {_prefix_of(tool): tool.key.server for tool in self.tools.values()}
        for prefix in sorted(filter(None, servers), key=len, reverse=True):
            if model_name.startswith(f"{prefix}_"):
                return ToolKey(servers[prefix], model_name.removeprefix(f"{prefix}_"))
        return ToolKey(next(iter(servers.values()), ""), model_name)

    @cached_property
    def _names(self) -> Mapping[ToolKey, str]:
        return {tool.key: name for name, tool in [*self.own_tools.items(), *self.tools.items()]}

    @cached_property
    def _prefixes(self) -> Mapping[str, str | None]:
        """The prefix of the first tool of each server."""
        return {tool.key.server: tool.prefix for tool in reversed([*self.tools.values(), *self.own_tools.values()])}

    @cached_property
    def functions(self) -> Sequence[Json]:
        """The tools of servers as function tools of the Responses API, which any upstream accepts.

        The tools of one server are sorted by name: a server may list them in another order each time, and another order
        would miss the upstream's prefix cache.
        """
        return self._list_functions(is_deferred=False)

    @cached_property
    def deferred_functions(self) -> Sequence[Json]:
        """The tools that the model has to search for, in the same form."""
        return self._list_functions(is_deferred=True)

    @property
    def all_functions(self) -> Sequence[Json]:
        """All tools in the same form, also those that the model does not see."""
        return [*self.functions, *self.deferred_functions, *self.own_functions]

    def _list_functions(self, *, is_deferred: bool) -> Sequence[Json]:
        places = {tool.key.server: place for place, tool in enumerate(self.tools.values())}
        by_name = sorted(
            (named for named in self.tools.items() if named[1].is_deferred is is_deferred),
            key=lambda named: (places[named[1].key.server], named[1].key.name),
        )
        return _functions_of(dict(by_name))

    @cached_property
    def own_functions(self) -> Sequence[Json]:
        """The tools of the gateway itself in the same form."""
        return _functions_of(self.own_tools)


def _name_tools(tools: Iterable[HostedTool], used: set[str]) -> dict[str, HostedTool]:
    """Returns the tools under unique names that are not in `used`, and adds the names to `used`."""
    named: dict[str, HostedTool] = {}
    keys: set[ToolKey] = set()
    for tool in tools:
        if tool.key in keys:
            continue
        keys.add(tool.key)
        plain = name = model_name_of(tool.key, tool.prefix)
        attempt = 0
        # A server may choose the names of its tools so that they collide with the names of another's.
        while name.casefold() in used:
            name = _shorten(plain, tool.key, attempt)
            attempt += 1
        used.add(name.casefold())
        named[name] = tool
    return named


def _functions_of(tools: Mapping[str, HostedTool]) -> Sequence[Json]:
    return [
        {
            "type": "function",
            "name": name,
            "description": tool.description or "",
            "parameters": tool.parameters,
            "strict": False,
        }
        for name, tool in tools.items()
    ]
