"""gateway/config/storage_settings.py: mistakes in the section `files`, and the missing package."""

from typing import Any

import pytest

from gateway.config import storage_settings
from gateway.config.settings import parse_settings
from gateway.config.yaml_file import ConfigError


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ({"s3": {}}, "files.s3.bucket"),
        ({"s3": {"bucket": ""}}, "files.s3.bucket"),
        ({"s3": {"bucket": "b"}, "path": "/srv"}, "files: write path or s3, and only one of them"),
        ({"s3": {"bucket": "b", "endpoint": "minio:9000"}}, "files.s3.endpoint: write a URL with http:// or https://"),
        ({"s3": {"bucket": "b", "access_key_env": "A"}}, "files.s3: write access_key_env and secret_key_env"),
        ({"s3": {"bucket": "b", "secret_key_env": "A"}}, "files.s3: write access_key_env and secret_key_env"),
        ({"s3": {"bucket": "b", "access_key_env": "A", "secret_key_env": "UNSET"}}, "files.s3.secret_key_env"),
        ({"s3": {"bucket": "b", "prefix": "a//b"}}, "files.s3.prefix: write names with single slashes"),
        ({"s3": {"bucket": "b", "prefix": "a/../b"}}, "files.s3.prefix: write names with single slashes"),
        ({"s3": {"bucket": "b", "deadline_s": 0}}, "files.s3.deadline_s"),
        ({"s3": {"bucket": "b", "key": "x"}}, "files.s3.key"),
    ],
)
def test_mistakes_are_named(section: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_settings({"files": section}, environ={"A": "a"})


def test_keys_come_from_the_environment_and_are_not_shown() -> None:
    section = {"bucket": "b", "prefix": "/a/b/", "access_key_env": "ID", "secret_key_env": "SECRET"}
    settings = parse_settings({"files": {"s3": section}}, environ={"ID": "the-id", "SECRET": "the-secret"}).files.s3
    assert settings is not None
    assert settings.prefix == "a/b"
    assert settings.secret_key is not None
    assert settings.secret_key.get_secret_value() == "the-secret"
    assert "the-secret" not in repr(settings)


def test_without_the_section_there_is_a_folder() -> None:
    assert parse_settings({}, environ={}).files.s3 is None


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_settings, "_PACKAGE", "a_package_of_nobody")
    with pytest.raises(ConfigError, match="obstore is not installed"):
        parse_settings({"files": {"s3": {"bucket": "b"}}}, environ={})
