"""gateway/config/telemetry_settings.py: mistakes in the section `tracing`, and the missing package."""

from typing import Any

import pytest

from gateway.config import telemetry_settings
from gateway.config.settings import parse_settings
from gateway.config.yaml_file import ConfigError
from providers.config import PROVIDER_DEFAULTS, ProviderConfig


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ({"sample": 1.5}, "tracing.sample"),
        ({"sample": -0.1}, "tracing.sample"),
        ({"sample": "often"}, "tracing.sample"),
        ({"slow_s": 0}, "tracing.slow_s"),
        ({"endpoint": "collector:4318"}, "tracing.endpoint: write a URL with http:// or https://"),
        ({"endpoint": ""}, "tracing.endpoint"),
        ({"service": ""}, "tracing.service"),
        ({"headers": ["a"]}, "tracing.headers"),
        ({"samples": 1}, "tracing.samples"),
    ],
)
def test_mistakes_are_named(section: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem.replace("(", r"\(")):
        parse_settings({"tracing": section}, environ={})


def test_traces_are_off_without_the_section() -> None:
    assert parse_settings({}, environ={}).tracing is None
    settings = parse_settings({"tracing": {}}, environ={}).tracing
    assert settings is not None
    assert (settings.endpoint, settings.sample, settings.slow_s) == (None, 0.01, None)


@pytest.mark.parametrize("package", ["opentelemetry.exporter.nobody", "nobody.at.all"])
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setattr(telemetry_settings, "_PACKAGE", package)
    with pytest.raises(ConfigError, match="OpenTelemetry is not installed"):
        parse_settings({"tracing": {}}, environ={})
    parse_settings({}, environ={})


def test_upstreams_of_the_operator_are_told_the_trace() -> None:
    told = {kind for kind in PROVIDER_DEFAULTS if ProviderConfig.model_construct(type=kind).find_trace_context()}
    assert told == {"vllm", "llama_server", "ollama", "openai_compatible"}
    assert ProviderConfig.model_construct(type="openai", trace_context=True).find_trace_context()
    assert not ProviderConfig.model_construct(type="vllm", trace_context=False).find_trace_context()
