"""The settings of a tool of an MCP server that is run as a hosted tool."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from gateway.config.mapped_tools.result_paths import ResultPath, parse_path

HostedToolName: TypeAlias = Literal["web_search", "file_search", "code_interpreter"]
"""The hosted tools that a tool of an MCP server can stand for."""

_Path = Annotated[str, Field(min_length=1, max_length=500)]
_Text = Annotated[str, Field(min_length=1)]


class _Rules(NamedTuple):
    """The keys of a mapping. Exactly one of `one_of` is required in `arguments`, and one of each of `results` in
    `result`."""

    one_of: Sequence[str]
    arguments: Sequence[str] = ()
    results: Sequence[Sequence[str]] = ()
    optional_results: Sequence[str] = ()

    @property
    def known_arguments(self) -> Sequence[str]:
        return (*self.one_of, *self.arguments)

    @property
    def known_results(self) -> Sequence[str]:
        return (*dict.fromkeys([name for names in self.results for name in names]), *self.optional_results)


_RULES: Final[Mapping[HostedToolName, _Rules]] = {
    "web_search": _Rules(
        ("query", "queries"),
        ("results", "country", "allowed_domains", "blocked_domains"),
        (("url",),),
        ("items", "title", "text"),
    ),
    "file_search": _Rules(
        ("query", "queries"),
        ("results", "vector_store_ids", "filters"),
        (("text",), ("file_id", "filename")),
        ("items", "score"),
    ),
    "code_interpreter": _Rules(("code",), (), (), ("text",)),
}


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class MappedResultSettings(_Section):
    """Where the result of the tool has what the hosted tool needs."""

    items: _Path | None = Field(
        default=None,
        description="The path to the list of results of a search. If left out, the whole result is the list.",
    )
    url: _Path | None = Field(
        default=None, description="The path to the URL, inside of one result. `web_search` needs it."
    )
    title: _Path | None = Field(default=None, description="The path to the title of a page, inside of one result.")
    text: _Path | None = Field(
        default=None,
        description="The path to the text of one result, which `file_search` needs. For `code_interpreter` it is the "
        "path to the output in the whole result; if left out, all text of the result is the output.",
    )
    file_id: _Path | None = Field(
        default=None, description="The path to the id of the file, inside of one result. If left out, its name."
    )
    filename: _Path | None = Field(
        default=None, description="The path to the name of the file, inside of one result. If left out, its id."
    )
    score: _Path | None = Field(
        default=None, description="The path to the score, from 0 to 1, inside of one result. Others count as 0 or 1."
    )

    @field_validator("*")
    @classmethod
    def _refuse_odd_paths(cls, path: str | None) -> str | None:
        if path is not None:
            try:
                parse_path(path)
            except ValueError:
                raise PydanticCustomError(
                    "path", "write a path of keys and indexes, such as $.results, url or data['a b'][0]"
                ) from None
        return path

    def read_path(self, name: str) -> ResultPath | None:
        """Returns the path of one of the keys; None if it is left out."""
        text: str | None = getattr(self, name)
        return None if text is None else parse_path(text)


class MappedToolSettings(_Section):
    """A tool of the server that is run as a hosted tool ([mcp.md](mcp.md#tools-as-hosted-tools))."""

    tool: HostedToolName = Field(
        description="The hosted tool: `web_search`, `file_search` or `code_interpreter`. One tool of all servers can "
        "stand for each of them."
    )
    arguments: dict[_Text, _Text] = Field(
        min_length=1,
        description="The arguments of the tool: what the gateway has, and the name of the argument that gets it. "
        "`web_search`: `query` (a text) or `queries` (a list with the text), `results` (the most that are wanted), "
        "`country`, `allowed_domains`, `blocked_domains`. `file_search`: `query` or `queries`, `results`, "
        "`vector_store_ids`, `filters`. `code_interpreter`: `code`.",
    )
    result: MappedResultSettings = Field(
        default=MappedResultSettings(),
        description="Where the result of the tool has what the hosted tool needs, as paths of keys and indexes, such "
        "as `$.data['all results'][0].url`. `$` is the whole result, and may be left out before a key.",
    )

    @model_validator(mode="after")
    def _require_the_keys_of_the_tool(self) -> "MappedToolSettings":
        rules, result = _RULES[self.tool], self.result
        written = [name for name in type(result).model_fields if getattr(result, name) is not None]
        sections: Sequence[tuple[str, Sequence[str], Sequence[str]]] = (
            ("arguments", [*self.arguments], rules.known_arguments),
            ("result", written, rules.known_results),
        )
        for section, names, known in sections:
            if odd := next((name for name in names if name not in known), None):
                raise _build_problem(f"{section}: {self.tool} has no {odd!r}; write some of {', '.join(known)}")
        if sum(name in self.arguments for name in rules.one_of) != 1:
            raise _build_problem(f"arguments: write {' or '.join(rules.one_of)}, with the name of the tool's argument")
        for choices in rules.results:
            if not any(name in written for name in choices):
                raise _build_problem(f"result: {self.tool} needs a path to its {' or '.join(choices)}")
        if len({*self.arguments.values()}) < len(self.arguments):
            raise _build_problem("arguments: two of them have the same name for the tool")
        return self


def _build_problem(text: str) -> PydanticCustomError:
    return PydanticCustomError("mapping", "{problem}", {"problem": text})
