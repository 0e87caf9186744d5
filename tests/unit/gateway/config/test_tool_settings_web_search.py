"""The settings of web searches: what an engine needs, and what a model may refer to."""

from typing import Any

import pytest

from gateway.config.settings import parse_settings
from gateway.config.yaml_file import ConfigError


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"engine": "searxng"}, "write the url of the SearXNG server"),
        ({"engine": "brave"}, "write key_env"),
        ({"engine": "tavily", "key_env": "ABSENT_KEY"}, "ABSENT_KEY"),
        ({"engine": "searxng", "url": "ftp://a.example"}, "begins with http"),
        ({"engine": "searxng", "url": "http://u:p@a.example"}, "without a user"),
        ({"engine": "searxng", "url": "http://["}, "begins with http"),
        ({"engine": "google"}, "engine"),
        ({"deadline_s": 0}, "deadline_s"),
    ],
)
def test_an_engine_without_what_it_needs_is_refused(settings: Any, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_settings({"tools": {"web_search": settings}}, environ={})
    assert problem in str(refused.value)


def test_a_model_cannot_have_a_search_without_an_engine() -> None:
    config: Any = {
        "providers": {"p": {"type": "scripted"}},
        "models": {"m": {"provider": "p", "tools": {"web_search": True}}},
    }
    with pytest.raises(ConfigError) as refused:
        parse_settings(config, environ={})
    assert "write tools.web_search.engine" in str(refused.value)
    config["tools"] = {"web_search": {"engine": "brave", "key_env": "KEY", "url": "http://10.0.0.1:8080"}}
    settings = parse_settings(config, environ={"KEY": "k" * 20})
    assert settings.models["m"].tools.list_added_tools() == [{"type": "web_search"}]
    assert settings.tools.web_search.max_page_bytes == 5 * 1024 * 1024
    assert settings.tools.web_search.max_reply_bytes == 2 * 1024 * 1024
