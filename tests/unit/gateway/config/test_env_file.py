"""`env_file`: variables that are read from a file, again with every reload."""

from pathlib import Path

import pytest

from gateway.config.settings import Settings, load_settings
from gateway.config.yaml_file import ConfigError

CONFIG = "env_file: keys.env\nauth: {keys: [{name: a, key_env: KEY}, {name: b, key: '${OTHER}'}]}\n"


def load(tmp_path: Path, content: bytes | None, text: str = CONFIG) -> Settings:
    (tmp_path / "config.yaml").write_text(text)
    if content is not None:
        (tmp_path / "keys.env").write_bytes(content)
    return load_settings(tmp_path / "config.yaml", environ={"KEY": "key-of-the-environment", "OTHER": "other-key"})


def read_keys(settings: Settings) -> list[str]:
    assert settings.auth is not None
    return [key.key.get_secret_value() for key in settings.auth.keys if key.key is not None]


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("KEY=plain", "plain"),
        ("  KEY = spaced  ", "spaced"),
        ("export KEY=exported", "exported"),
        ("KEY='in quotes'", "in quotes"),
        ('KEY="in quotes"', "in quotes"),
        ("KEY='", "'"),
        ("KEY=a=b#c", "a=b#c"),
        ("KEY=${OTHER}", "${OTHER}"),
        ("KEY=first\nKEY=second", "second"),
        ("# KEY=comment\n\nKEY=after\r\n", "after"),
    ],
)
def test_a_value_of_the_file_replaces_that_of_the_environment(line: str, value: str, tmp_path: Path) -> None:
    assert read_keys(load(tmp_path, line.encode())) == [value, "other-key"]


def test_a_variable_that_the_file_lacks_is_that_of_the_environment(tmp_path: Path) -> None:
    assert read_keys(load(tmp_path, b"")) == ["key-of-the-environment", "other-key"]


def test_the_file_may_be_anywhere(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "keys.env").write_text("KEY=from-elsewhere")
    text = CONFIG.replace("keys.env", str(tmp_path / "elsewhere" / "keys.env"))
    assert read_keys(load(tmp_path, None, text))[0] == "from-elsewhere"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"KEY=good\n s3cret\n", "line 2: write NAME=value"),
        (b"1KEY=s3cret\n", "line 1: write NAME=value"),
        (b"KEY=s3cret\xff", "is not UTF-8 text"),
        (b"#" * (1024 * 1024 + 1), "is larger than 1 MiB"),
    ],
    ids=["no file", "no variable", "no name", "no text", "too large"],
)
def test_a_file_that_cannot_be_used_is_an_error_without_its_values(
    content: bytes | None, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, content)
    assert str(raised.value).startswith(f"{tmp_path / 'config.yaml'}:1: env_file: ")
    assert message in str(raised.value)
    assert "s3cret" not in str(raised.value)
