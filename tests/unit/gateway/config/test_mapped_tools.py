"""The mappings of tools of MCP servers onto hosted tools: which are refused, and how each refusal names its place."""

from typing import Any, Final

import pytest

from gateway.config.mapped_tools.result_paths import parse_path
from gateway.config.settings import Settings, parse_settings
from gateway.config.yaml_file import ConfigError
from tests.upstream.builders import Json

SEARCH: Final[Json] = {"tool": "web_search", "arguments": {"query": "q"}, "result": {"url": "url"}}
FILES: Final[Json] = {"tool": "file_search", "arguments": {"query": "q"}, "result": {"text": "t", "filename": "f"}}
CODE: Final[Json] = {"tool": "code_interpreter", "arguments": {"code": "c"}}
PLACE: Final = "tools.mcp.servers.a.as.find"


def server(mapped: Any, **more: Any) -> Json:
    return {"url": "http://127.0.0.1:1/mcp", "approval": "never", "as": mapped, **more}


def read(mcp: Json, **tools: Any) -> Settings:
    return parse_settings({"tools": {"mcp": {"servers": mcp}, **tools}}, environ={})


def refuse(mcp: Json, **tools: Any) -> str:
    with pytest.raises(ConfigError) as refused:
        read(mcp, **tools)
    return str(refused.value)


ODD_MAPPINGS: Final[dict[str, tuple[Any, str]]] = {
    "no mapping": ("web_search", f"{PLACE}: write keys and values"),
    "an unknown hosted tool": ({**SEARCH, "tool": "image_generation"}, f"{PLACE}.tool: write 'web_search'"),
    "an unknown key": ({**SEARCH, "results": {}}, f"{PLACE}.results: unknown key; did you mean result?"),
    "no arguments": ({**SEARCH, "arguments": {}}, f"{PLACE}.arguments: write at least one"),
    "no query": ({**SEARCH, "arguments": {"results": "n"}}, "arguments: write query or queries"),
    "two queries": ({**SEARCH, "arguments": {"query": "a", "queries": "b"}}, "arguments: write query or queries"),
    "an argument of another tool": (
        {**SEARCH, "arguments": {"query": "q", "code": "c"}},
        "arguments: web_search has no 'code'; write some of query, queries, results",
    ),
    "one name for two": ({**SEARCH, "arguments": {"query": "q", "results": "q"}}, "two of them have the same name"),
    "no path to the URL": ({**SEARCH, "result": {"items": "$.a"}}, "result: web_search needs a path to its url"),
    "a path of another tool": (
        {**SEARCH, "result": {"url": "u", "score": "s"}},
        "result: web_search has no 'score'; write some of url, items, title, text",
    ),
    "no text of files": ({**FILES, "result": {"filename": "f"}}, "file_search needs a path to its text"),
    "no file": ({**FILES, "result": {"text": "t"}}, "file_search needs a path to its file_id or filename"),
    "no code": (
        {**CODE, "arguments": {"query": "q"}},
        "arguments: code_interpreter has no 'query'; write some of code",
    ),
    "an odd path": ({**SEARCH, "result": {"url": "$..url"}}, f"{PLACE}.result.url: write a path of keys and indexes"),
}


@pytest.mark.parametrize(("mapped", "problem"), ODD_MAPPINGS.values(), ids=ODD_MAPPINGS)
def test_a_mapping_that_cannot_work_is_refused(mapped: Any, problem: str) -> None:
    text = refuse({"a": server({"find": mapped})})
    assert PLACE in text
    assert problem in text


CONFLICTS: Final[dict[str, tuple[Json, Json, str]]] = {
    "an engine and a mapping": (
        {"a": server({"find": SEARCH})},
        {"web_search": {"engine": "searxng", "url": "http://127.0.0.1:1"}},
        f"{PLACE} and tools.web_search.engine both run web_search",
    ),
    "two servers": (
        {"a": server({"find": SEARCH}), "b": server({"look": SEARCH}, prefix="b")},
        {},
        f"tools.mcp.servers.b.as.look and {PLACE} both run web_search",
    ),
    "two tools of one server": (
        {"a": server({"find": FILES, "look": FILES})},
        {},
        f"tools.mcp.servers.a.as.look and {PLACE} both run file_search",
    ),
    "an approval by default": (
        {"a": {"url": "http://127.0.0.1:1/mcp", "as": {"find": SEARCH}}},
        {},
        "tools.mcp.servers.a: `as` names 'find', whose calls may need an approval (`approval`)",
    ),
    "an approval of this tool": (
        {"a": server({"find": CODE}, approval={"always": {"tool_names": ["find"]}})},
        {},
        "write `approval: {never: {tool_names: [find]}}`",
    ),
    "an approval unless the tool is read-only": (
        {"a": server({"find": SEARCH}, trusted=True, approval={"never": {"read_only": True}})},
        {},
        "may need an approval",
    ),
    "a tool that is not allowed": ({"a": server({"find": SEARCH}, allow=["get_*"])}, {}, "leaves the tool 'find' out"),
    "a tool without a pin": ({"a": server({"find": SEARCH}, pins={"look": "x"})}, {}, "hold the tool 'find' back"),
}


@pytest.mark.parametrize(("servers", "tools", "problem"), CONFLICTS.values(), ids=CONFLICTS)
def test_a_mapping_that_contradicts_the_configuration_is_refused(servers: Json, tools: Json, problem: str) -> None:
    text = refuse(servers, **tools)
    assert problem in text


def test_mappings_of_each_tool_are_read() -> None:
    approval = {"never": {"tool_names": ["find", "look", "run"]}}
    settings = read({"a": server({"find": SEARCH, "look": FILES, "run": CODE}, approval=approval)})
    mapped = settings.tools.mcp.servers["a"].mapped_tools
    assert {name: each.tool for name, each in mapped.items()} == {
        "find": "web_search",
        "look": "file_search",
        "run": "code_interpreter",
    }


def test_a_mapping_is_an_engine_for_the_search_of_a_model() -> None:
    config: Json = {
        "providers": {"p": {"type": "scripted"}},
        "models": {"m": {"provider": "p", "tools": {"web_search": True}}},
        "tools": {"mcp": {"servers": {"a": server({"find": SEARCH})}}},
    }
    settings = parse_settings(config, environ={})
    assert settings.models["m"].tools.list_added_tools() == [{"type": "web_search"}]


VALUE: Final[Json] = {"a": {"b c": [{"d": 1}, {"d": 2}], "e-f": 3, "ä": 4}, "0": 5, "n": None}
PATHS: Final[dict[str, Any]] = {
    "$": VALUE,
    "a.e-f": 3,
    "$.a.ä": 4,
    "$.a['b c'][0].d": 1,
    '$["a"]["b c"][-1].d': 2,
    "['0']": 5,
    "$.a['b c'][2].d": None,
    "a.e-f.g": None,
    "a[0]": None,
    "n.a": None,
    "missing": None,
}


@pytest.mark.parametrize("path", PATHS)
def test_a_path_finds_one_value(path: str) -> None:
    assert parse_path(path).find(VALUE) == PATHS[path]


@pytest.mark.parametrize(
    "path",
    ["", ".a", "a.", "a..b", "$a", "a[", "a[*]", "$..a", "a b", "a[1:2]", "a['b", "0", "a[?@.b]", ".".join("a" * 40)],
)
def test_other_paths_are_refused(path: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        parse_path(path)
