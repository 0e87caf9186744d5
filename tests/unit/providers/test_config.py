"""providers/config.py: the settings of an upstream."""

from dataclasses import fields
from typing import Any

import pytest
from pydantic import ValidationError

from providers.base import Capabilities
from providers.config import PROVIDER_DEFAULTS, CapabilityOverrides, ProviderConfig, is_loopback

ADDRESSES: dict[str, tuple[str, str | None]] = {
    "an address with a path is kept": ("http://10.0.0.7:8000/v1", None),
    "a slash at the end does not matter": ("https://host/v1/", None),
    "IPv6": ("http://[::1]:8000/v1", None),
    "no scheme": ("localhost:8000", "begins with http:// or https://"),
    "another scheme": ("ftp://host/v1", "begins with http:// or https://"),
    "no host": ("http:///v1", "begins with http:// or https://"),
    "a space": ("http://a b/v1", "begins with http:// or https://"),
    "a port that is none": ("http://host:abc/v1", "this is not a URL"),
    "an unclosed bracket": ("http://[::1/v1", "this is not a URL"),
    "a key inside": ("https://user:pass@host/v1", "set the key with api_key_env, not inside the address"),
    "a query": ("https://host/v1?a=b", "without ? and #"),
    "the path of an endpoint": ("https://host/v1/chat/completions", "write the address without /chat/completions"),
    "the path of Ollama's chat": ("http://host:11434/api/chat", "write the address without /api/chat"),
}


@pytest.mark.parametrize(("url", "complaint"), ADDRESSES.values(), ids=ADDRESSES)
def test_an_address_is_checked_before_anything_is_sent_there(url: str, complaint: str | None) -> None:
    if complaint is None:
        assert ProviderConfig(type="openai_compatible", base_url=url).base_url == url.rstrip("/")
    else:
        with pytest.raises(ValidationError, match=complaint.replace("?", r"\?")):
            ProviderConfig(type="openai_compatible", base_url=url)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an unnamed server without address": ({"type": "openai_compatible"}, "write base_url"),
    "OpenAI without a key": ({"type": "openai"}, "write api_key_env: OPENAI_API_KEY"),
    "OpenRouter with an empty key": ({"type": "openrouter", "api_key": ""}, "write api_key_env: OPENROUTER_API_KEY"),
    "a scripted provider with an address": ({"type": "scripted", "base_url": "http://a/v1"}, "has no upstream"),
    "an embedded engine without a model": ({"type": "llamacpp"}, "write model, the model that llamacpp loads"),
    "an embedded engine with an address": (
        {"type": "llamacpp", "model": "m", "base_url": "http://a/v1"},
        "llamacpp has no upstream",
    ),
    "a scripted provider with a model": ({"type": "scripted", "model": "m"}, "a scripted provider has no engine"),
    "a remote server with a model": ({"type": "vllm", "model": "m"}, "only embedded engines load a model"),
    "a remote server with an engine's settings": (
        {"type": "vllm", "base_url": "http://a/v1", "engine": {"n_ctx": 1}},
        "leave engine out",
    ),
    "a remote server that is to be watched": ({"type": "vllm", "hang_s": 5}, "only embedded engines have a watchdog"),
    "a scripted provider that is to be watched": ({"type": "scripted", "hang_s": 5}, "leave model, engine and hang_s"),
    "an embedded engine with a transport": (
        {"type": "llamacpp", "model": "m", "transport": "httpx"},
        "leave transport out",
    ),
    "a transport there is not": ({"type": "vllm", "transport": "curl"}, "'pooled' or 'httpx'"),
    "a patience below nothing": ({"type": "llamacpp", "model": "m", "hang_s": -1}, "greater than or equal to 0"),
    "no dialect at all": ({"type": "vllm", "dialects": []}, r"write dialects: \[chat\]"),
    "a dialect there is not": ({"type": "vllm", "dialects": ["gemini"]}, "'chat', 'responses' or 'messages'"),
    "a dialect beside an API of its own": ({"type": "anthropic", "api_key": "k", "dialects": ["chat"]}, "of its own"),
    "Anthropic without a key": ({"type": "anthropic"}, "write api_key_env: ANTHROPIC_API_KEY"),
    "Gemini without a key": ({"type": "gemini"}, "write api_key_env: GEMINI_API_KEY"),
    "a header that is no header": ({"type": "vllm", "headers": {"a b": "c"}}, "'a b' is not a valid header name"),
    "a header with a line end": ({"type": "vllm", "headers": {"a": "b\r\nc: d"}}, "contains a control character"),
    "no time at all": ({"type": "vllm", "connect_s": 0}, "greater than 0"),
}


@pytest.mark.parametrize(("given", "complaint"), REFUSED.values(), ids=REFUSED)
def test_impossible_configurations_are_refused(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        ProviderConfig.model_validate(given)


NEEDED = {
    "openai_compatible": {"base_url": "http://a/v1"},
    "vllm_inprocess": {"model": "m"},
    "llamacpp": {"model": "m"},
}
"""Type -> its required settings."""


@pytest.mark.parametrize("kind", PROVIDER_DEFAULTS)
def test_defaults_of_a_type_need_not_be_configured(kind: str) -> None:
    given = {"type": kind, "api_key": "k", **NEEDED.get(kind, {})}
    config = ProviderConfig.model_validate(given)
    known = PROVIDER_DEFAULTS[config.type]
    assert config.dialects == known.dialects
    assert config.base_url == (known.base_url or given.get("base_url"))


@pytest.mark.parametrize("url", ["http://localhost:9/v1", "http://127.0.0.1:9/v1", "http://[::1]:9/v1"])
def test_an_upstream_on_this_machine_needs_no_key(url: str) -> None:
    assert ProviderConfig(type="openai", base_url=url).key == ""


def test_configured_values_override_the_type() -> None:
    config = ProviderConfig.model_validate({"type": "vllm", "base_url": "http://a/v1", "dialects": ["responses"]})
    assert (config.base_url, config.dialects) == ("http://a/v1", ("responses",))


def test_overrides_have_the_names_of_the_capabilities_but_for_dialects_which_stand_outside() -> None:
    assert set(CapabilityOverrides.model_fields) == {field.name for field in fields(Capabilities)} - {"dialects"}


def test_no_key_and_no_header_is_in_a_representation() -> None:
    config = ProviderConfig.model_validate({"type": "vllm", "api_key": "s3cret", "headers": {"a": "s3cret"}})
    assert "s3cret" not in f"{config} {config!r}"


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [("localhost", True), ("a.localhost", True), ("127.9.9.9", True), ("::1", True), ("0.0.0.0", False), ("a", False)],
)
def test_only_this_machine_is_loopback(host: str, is_ours: bool) -> None:
    assert is_loopback(host) is is_ours
