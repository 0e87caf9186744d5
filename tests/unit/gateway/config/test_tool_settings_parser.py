"""The parser of files in vector stores: its names, the addresses of a service, and the package that it needs."""

import pytest

from gateway.config import tool_settings
from gateway.config.settings import parse_settings
from gateway.config.tool_settings import FileSearchSettings
from gateway.config.yaml_file import ConfigError


def read(**keys: object) -> FileSearchSettings:
    return parse_settings({"tools": {"file_search": keys}}, environ={"PARSER_KEY": "secret"}).tools.file_search


URLS = {
    "builtin": None,
    "markitdown": None,
    "docling": "http://127.0.0.1:5001",
    "http://docling.internal:5001": "http://docling.internal:5001",
    "https://parsers.example.com/docling/": "https://parsers.example.com/docling/",
}


@pytest.mark.parametrize("parser", URLS)
def test_a_parser_is_one_of_three_names_or_an_address(parser: str) -> None:
    assert read(parser=parser).parser_url == URLS[parser]


def test_files_are_read_by_the_gateway_itself_by_default() -> None:
    assert (read().parser, read().parser_url, read().parser_key) == ("builtin", None, None)


@pytest.mark.parametrize(
    "parser", ["", "Docling", "unstructured", "ftp://host", "http://", "http://user:word@host", "localhost:5001", 7]
)
def test_another_parser_is_refused_by_the_key(parser: object) -> None:
    with pytest.raises(ConfigError, match=r"tools\.file_search\.parser"):
        read(parser=parser)


def test_the_key_of_a_service_is_read_from_the_environment() -> None:
    key = read(parser="docling", parser_key_env="PARSER_KEY").parser_key
    assert key is not None
    assert key.get_secret_value() == "secret"


def test_a_missing_package_is_named_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_settings, "_PARSER_PACKAGE", "a_package_of_nobody")
    assert read(parser="builtin").parser == "builtin"
    with pytest.raises(ConfigError, match=r'parser: markitdown is not installed: pip install ".*\[markitdown\]"'):
        read(parser="markitdown")
