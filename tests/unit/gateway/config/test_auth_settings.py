"""The section `auth`: whose keys there may be, and in which forms."""

from pathlib import Path

import pytest
import yaml

from gateway.config.hints import find_hints
from gateway.config.settings import Settings, load_settings
from gateway.config.yaml_file import ConfigError

HASH = "0a" * 32


def load(tmp_path: Path, *keys: dict[str, object]) -> Settings:
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump({"auth": {"keys": list(keys)}}))
    return load_settings(file, environ={"KEY": "the-key-of-a-client"})


MISTAKES: dict[str, tuple[list[dict[str, object]], str]] = {
    "no key": ([{"name": "a"}], "auth.keys[0]: write key_env, key or key_sha256"),
    "a key and a hash": ([{"name": "a", "key": "b", "key_sha256": HASH}], "write key_env, key or key_sha256"),
    "a variable and a hash": ([{"name": "a", "key_env": "KEY", "key_sha256": HASH}], "and only one of them"),
    "a hash that is too short": ([{"name": "a", "key_sha256": HASH[:-1]}], "auth.keys[0].key_sha256"),
    "a hash with a line break": ([{"name": "a", "key_sha256": HASH + "\n"}], "auth.keys[0].key_sha256"),
    "the hash of another key": (
        [
            {"name": "a", "key": "x"},
            {"name": "b", "key_sha256": "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"},
        ],
        "a has the same key as another",
    ),
    "the owner of everybody": ([{"name": "a", "key": "b", "owner": "anonymous"}], "auth.keys[0].owner"),
    "an owner that cannot be stored": ([{"name": "a", "key": "b", "owner": "x" * 256}], "at most 255 characters"),
    "an empty owner": ([{"name": "a", "key": "b", "owner": ""}], "auth.keys[0].owner"),
    "two keys of one name": ([{"name": "a", "key": "b"}, {"name": "a", "key": "c", "owner": "d"}], "named a"),
    "a time without its zone": (
        [{"name": "a", "key": "b", "expires_at": "2027-01-31T00:00:00"}],
        "auth.keys[0].expires_at: write a time with its zone, such as 2027-01-31T00:00:00Z",
    ),
    "a date": (
        [{"name": "a", "key": "b", "expires_at": "2027-01-31"}],
        "auth.keys[0].expires_at: write a time with its zone, such as 2027-01-31T00:00:00Z",
    ),
    "no time at all": (
        [{"name": "a", "key": "b", "expires_at": "soon"}],
        "auth.keys[0].expires_at: write a time with its zone, such as 2027-01-31T00:00:00Z",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_with_its_remedy(mistake: str, tmp_path: Path) -> None:
    keys, message = MISTAKES[mistake]
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, *keys)
    assert message in str(raised.value)


def test_the_same_owner_may_have_keys_in_all_forms(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        {"name": "a", "key_env": "KEY"},
        {"name": "a-2", "owner": "a", "key": "b"},
        {"name": "a-3", "owner": "a", "key_sha256": HASH, "expires_at": "2999-01-31T00:00:00+01:00"},
    )
    assert settings.auth is not None
    assert [key.owner_name for key in settings.auth.keys] == ["a"] * 3
    assert [len(key.digest) for key in settings.auth.keys] == [32] * 3
    assert [key.length for key in settings.auth.keys] == [19, 1, None]


def test_a_time_may_be_written_without_quotes(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("auth: {keys: [{name: a, key: b, expires_at: 2027-01-31T00:00:00Z}]}\n")
    settings = load_settings(file)
    assert settings.auth is not None
    assert str(settings.auth.keys[0].expires_at) == "2027-01-31 00:00:00+00:00"


def test_a_key_that_has_expired_is_a_hint_and_a_hash_has_no_length_to_warn_of(tmp_path: Path) -> None:
    settings = load(tmp_path, {"name": "a", "key_sha256": HASH, "expires_at": "2020-01-31T00:00:00Z"})
    hints = [hint for hint in find_hints(settings) if "expires_at" in hint.path or "key" in hint.path]
    assert [hint.path for hint in hints] == [("auth", "keys", 0, "expires_at")]
    assert hints[0].message == "a has expired: remove the key, or write a later time"
