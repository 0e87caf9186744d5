"""The encoding of gpt-oss is loaded from the package, and never downloaded by the library."""

import os

import pytest

from providers.config import ProviderConfig
from providers.engine_checks import check_engine_config
from providers.harmony.encoding import load_encoding
from tests.unit.support.harmony import real

CONFIG = ProviderConfig(type="harmony", base_url="http://localhost:1/v1")
FOLDER = "TIKTOKEN_ENCODINGS_BASE"


@pytest.mark.parametrize("before", [None, "/elsewhere"])
def test_it_is_loaded_from_the_package_and_the_environment_is_left_as_it_was(
    before: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(FOLDER, raising=False)
    if before is not None:
        monkeypatch.setenv(FOLDER, before)
    loaded = load_encoding.__wrapped__()
    assert loaded.decode(loaded.encode("Grüße")) == "Grüße"
    assert os.environ.get(FOLDER) == before


def test_marks_are_those_of_gpt_oss() -> None:
    assert real().control_tokens == (200006, 200005, 200003, 200008, 200007, 200002, 200012)
    assert all(map(real().is_special, real().control_tokens))


def test_text_that_spells_a_mark_is_text() -> None:
    tokens = real().encode("<|end|>")
    assert not any(map(real().is_special, tokens))
    assert real().decode(tokens) == "<|end|>"


def test_a_configuration_without_the_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_engine_config(CONFIG) == []
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    [complaint] = check_engine_config(CONFIG)
    assert 'pip install "responses-gateway[harmony]"' in complaint.message
