"""The warnings of `check-config` about valid but probably unintended settings."""

from pathlib import Path

import pytest

from gateway.config.hints import find_hints
from gateway.config.settings import load_settings
from gateway.config.yaml_file import render_warnings

PROVIDER = "providers: {local: {type: scripted}}\n"

SUSPECT = {
    "an empty file": ("", "config.yaml: warning: no request can be served: write providers and models, "),
    "a comment alone": ("# later\n", "config.yaml: warning: no request can be served: "),
    "a provider and no model": (PROVIDER, "config.yaml: warning: models: no request can be served: "),
    "a provider that no model uses": (
        "providers:\n  local: {type: scripted}\n  other: {type: scripted}\nmodels: {a: {provider: local}}\n",
        "config.yaml:3: warning: providers.other: no model uses this provider: name it in a model, or remove it",
    ),
    "a name below a pattern that matches it": (
        PROVIDER + "models:\n  gpt-*: {provider: local}\n  gpt-5: {provider: local}\n",
        "config.yaml:4: warning: models.gpt-5: never used: gpt-* above matches it, and the first match wins",
    ),
    "a pattern below a wider one": (
        PROVIDER + "models:\n  '*': {provider: local}\n  gpt-*: {provider: local}\n",
        'config.yaml:4: warning: models."gpt-*": never used: * above matches it, and the first match wins',
    ),
    "a short key": (
        PROVIDER + "models: {a: {provider: local}}\nauth: {keys: [{name: team, key: secret}]}\n",
        "config.yaml:3: warning: auth.keys[0].key: team has a key of fewer than 16 characters: write a longer one",
    ),
    "names of a server without keys": (
        PROVIDER + "models: {a: {provider: local}}\nserver: {hosts: [gateway.example.com]}\n",
        "config.yaml:3: warning: server.hosts: whoever reaches the server as gateway.example.com may use it, because "
        "there are no auth.keys",
    ),
    "every origin without keys": (
        PROVIDER + "models: {a: {provider: local}}\nserver:\n  cors: {origins: ['*']}\n",
        "config.yaml:4: warning: server.cors.origins: every web page may run requests and tools of this server",
    ),
    "a limit of keys without keys": (
        PROVIDER + "models: {a: {provider: local}}\nlimits: {open_requests: 5}\n",
        "config.yaml:3: warning: limits.open_requests: never applied: without auth.keys clients cannot be told apart",
    ),
    "a limit of the WebSockets of keys without keys": (
        PROVIDER + "models: {a: {provider: local}}\nlimits: {websockets: 5}\n",
        "config.yaml:3: warning: limits.websockets: never applied: without auth.keys",
    ),
    "MCP servers for a model without tools": (
        "tools: {mcp: {servers: {s: {stdio: [x]}}}}\n"
        + PROVIDER
        + "models:\n  a: {provider: local, tools: {mcp: [s]}, capabilities: {tools: false}}\n",
        "config.yaml:4: warning: models.a.tools.mcp: the upstream has no tools, so every request is refused",
    ),
    "an MCP server without tools": (
        "tools: {mcp: {servers: {s: {stdio: [x], allow: []}}}}\n" + PROVIDER + "models: {a: {provider: local}}\n",
        "config.yaml:1: warning: tools.mcp.servers.s.allow: no tool of the server is allowed",
    ),
    "a key for a model there is not": (
        PROVIDER
        + "models: {a: {provider: local}}\nauth: {keys: [{name: t, key: 0123456789abcdef, models: [a, b*]}]}\n",
        "config.yaml:3: warning: auth.keys[0].models[1]: no model is called b*",
    ),
    "a key that adds MCP servers, and no store": (
        "store: {url: null}\n"
        + PROVIDER
        + "models: {a: {provider: local}}\nauth: {keys: [{name: t, key: 0123456789abcdef, admin: true}]}\n",
        "config.yaml:4: warning: auth.keys[0].admin: no server can be added without a store: write store.url",
    ),
    "a key for an MCP server there is not": (
        PROVIDER
        + "models: {a: {provider: local}}\nauth: {keys: [{name: t, key: 0123456789abcdef, mcp_servers: [crm]}]}\n",
        "config.yaml:3: warning: auth.keys[0].mcp_servers[0]: no MCP server is called crm",
    ),
}


def warnings_of(text: str, folder: Path) -> list[str]:
    file = folder / "config.yaml"
    file.write_text(text)
    lines = render_warnings(file, find_hints(load_settings(file, environ={})))
    return [line.removeprefix(f"{folder}/") for line in lines]


@pytest.mark.parametrize(("text", "warning"), SUSPECT.values(), ids=SUSPECT)
def test_probable_mistakes_are_warnings_with_their_line(text: str, warning: str, tmp_path: Path) -> None:
    (line,) = warnings_of(text, tmp_path)
    assert line.startswith(warning)
    assert "secret" not in line


REACHABLE = {
    "narrow before wide": ["gpt-5", "gpt-*", "*"],
    "one character is not any number of them": ["a?", "a*"],
    "any number of characters is not one": ["?*", "*"],
    "a suffix is not a prefix": ["*-mini", "gpt-*"],
    "a set is not any character": ["gpt-[45]", "gpt-?"],
    "a set below a prefix": ["gpt-*", "gpt[45]"],
}


@pytest.mark.parametrize("names", REACHABLE.values(), ids=REACHABLE)
def test_a_pattern_that_can_be_reached_is_no_warning(names: list[str], tmp_path: Path) -> None:
    models = "".join(f"  '{name}': {{provider: local}}\n" for name in names)
    assert warnings_of(f"{PROVIDER}models:\n{models}", tmp_path) == []


@pytest.mark.parametrize("kind", ["demo", "scripted"])
def test_servers_for_a_model_with_reported_capabilities_cause_no_warning(kind: str, tmp_path: Path) -> None:
    text = "tools: {mcp: {servers: {s: {stdio: [x]}}}}\n" + PROVIDER.replace("scripted", kind)
    assert warnings_of(text + "models: {a: {provider: local, tools: {mcp: [s]}}}\n", tmp_path) == []


def test_one_character_covers_one_character(tmp_path: Path) -> None:
    text = PROVIDER + "models:\n  a*: {provider: local}\n  ab?: {provider: local}\n"
    assert len(warnings_of(text, tmp_path)) == 1
