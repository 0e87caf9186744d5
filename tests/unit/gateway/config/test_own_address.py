"""gateway/config/own_address.py: upstreams that would be the gateway itself, and metrics at its address."""

from typing import Any

import pytest

from gateway.config.own_address import check_metrics_address, check_own_addresses
from gateway.config.settings import ServerSettings, parse_settings
from gateway.config.yaml_file import ConfigError
from providers.config import EMBEDDED_TYPES, PROVIDER_DEFAULTS

LOCAL = {"type": "llama_server"}

ITSELF: dict[str, tuple[dict[str, Any] | None, dict[str, Any]]] = {
    "by default": (None, LOCAL),
    "by default, tokens": (None, {"type": "harmony"}),
    "by a name": ({}, {"type": "vllm", "base_url": "http://localhost:8080/v1"}),
    "by its own name": ({"host": "gw", "port": 80}, {"type": "vllm", "base_url": "http://gw/v1"}),
    "under a name": ({"host": "localhost", "port": 9000}, {"type": "vllm", "base_url": "http://[::1]:9000/v1"}),
    "on every address": ({"host": "0.0.0.0"}, LOCAL),
    "on every address, IPv6": ({"host": "::"}, {"type": "ollama", "base_url": "http://[::1]:8080"}),
}


@pytest.mark.parametrize(("server", "provider"), ITSELF.values(), ids=ITSELF)
def test_the_gateway_is_no_upstream_of_its_own(server: dict[str, Any] | None, provider: dict[str, Any]) -> None:
    [problem] = check_own_addresses({"server": server, "providers": {"p": provider}})
    assert problem.path == ("providers", "p", "base_url")
    assert "is where the gateway itself listens" in problem.message


ELSEWHERE: dict[str, tuple[Any, Any]] = {
    "on another port": ({"port": 9000}, LOCAL),
    "on any free port": ({"port": 0}, LOCAL),
    "on another machine": ({}, {"type": "vllm", "base_url": "http://gpu-1:8080/v1"}),
    "beside an address of the network": ({"host": "10.0.0.5"}, LOCAL),
    "on the other address of this machine": ({}, {"type": "vllm", "base_url": "http://[::1]:8080/v1"}),
    "inside the gateway": ({}, {"type": "scripted"}),
    "nowhere": ({}, {"type": "vllm", "base_url": "http://[::1:8080/v1"}),
    "of a type that is none": ({}, {"type": []}),
    "what is no provider": ({}, 3),
    "a host that is none": ({"host": 1}, LOCAL),
}


@pytest.mark.parametrize(("server", "provider"), ELSEWHERE.values(), ids=ELSEWHERE)
def test_any_other_address_is_an_upstreams(server: Any, provider: Any) -> None:
    assert list(check_own_addresses({"server": server, "providers": {"p": provider}})) == []


def test_a_configuration_that_names_the_gateway_itself_is_refused_with_advice() -> None:
    tree = {"providers": {"p": LOCAL}, "models": {"a": {"provider": "p"}}}
    with pytest.raises(ConfigError, match=r"providers\.p\.base_url: http://127\.0\.0\.1:8080/v1 is where"):
        parse_settings(tree, environ={})
    assert (ServerSettings().host, ServerSettings().port) == ("127.0.0.1", 8080)
    settings = parse_settings(tree, overrides={"server": {"port": 8001}}, environ={})
    assert settings.providers["p"].base_url == "http://127.0.0.1:8080/v1"


def test_every_type_of_server_has_a_usual_place_but_the_one_that_stands_for_any() -> None:
    without = {kind for kind, row in PROVIDER_DEFAULTS.items() if row.base_url is None and kind not in EMBEDDED_TYPES}
    assert without == {"openai_compatible"}


@pytest.mark.parametrize(
    ("server", "listen"),
    [
        (None, "127.0.0.1:8080"),
        ({}, "localhost:8080"),
        ({"host": "localhost"}, "[::1]:8080"),
        ({"host": "10.0.0.5", "port": 9464}, "10.0.0.5:9464"),
        ({"host": "0.0.0.0"}, "127.0.0.1:8080"),
        ({"host": "0.0.0.0"}, "10.0.0.5:8080"),
        ({"host": "10.0.0.5"}, "0.0.0.0:8080"),
        ({"host": "::"}, "0.0.0.0:8080"),
        ({"host": "::"}, "[::1]:8080"),
        ({"host": "::1"}, "[::]:8080"),
    ],
)
def test_metrics_are_not_at_the_address_of_the_server(server: dict[str, Any] | None, listen: str) -> None:
    [problem] = check_metrics_address({"server": server, "metrics": {"listen": listen}})
    assert problem.path == ("metrics", "listen")
    assert f"{listen} is where the server itself listens: write another port" in problem.message


@pytest.mark.parametrize(
    ("server", "metrics"),
    [
        ({}, {"listen": "127.0.0.1:9464"}),
        ({"port": 9000}, {"listen": "127.0.0.1:8080"}),
        ({"port": 0}, {"listen": "127.0.0.1:0"}),
        ({"host": "10.0.0.5"}, {"listen": "127.0.0.1:8080"}),
        ({"host": "127.0.0.1"}, {"listen": "[::1]:8080"}),
        ({"host": "0.0.0.0"}, {"listen": "[::1]:8080"}),
        ({"host": 1}, {"listen": "127.0.0.1:8080"}),
        ({}, {"listen": "127.0.0.1:8080", "enabled": False}),
        ({}, {"listen": "8080"}),
        ({}, {"listen": 8080}),
        ({}, {}),
        ({}, None),
    ],
)
def test_any_other_address_is_the_metrics(server: Any, metrics: Any) -> None:
    assert list(check_metrics_address({"server": server, "metrics": metrics})) == []


def test_the_port_of_the_command_line_counts_for_metrics() -> None:
    tree = {"metrics": {"listen": "127.0.0.1:9464"}}
    with pytest.raises(ConfigError, match=r"metrics\.listen: 127\.0\.0\.1:9464 is where"):
        parse_settings(tree, overrides={"server": {"port": 9464}}, environ={})
