"""The generated pages are up to date."""

from dataclasses import fields

import pytest

from scripts.docs import PAGES, ROOT
from scripts.docs.parameters import CHAT, RESPONSES
from translation.chat.client.schema import REQUEST_FIELDS
from translation.representation.profile import Profile
from translation.responses.schema.request import Request


@pytest.mark.parametrize("path", PAGES)
def test_a_generated_page_is_up_to_date(path: str) -> None:
    assert (ROOT / path).read_text() == PAGES[path](), "run `make docs`"


def test_every_parameter_of_chat_completions_has_a_row() -> None:
    assert REQUEST_FIELDS - {"model", "messages"} == CHAT.keys()


def test_every_parameter_of_responses_has_a_row() -> None:
    assert Request.__annotations__.keys() - {"model", "input"} == RESPONSES.keys()


@pytest.mark.parametrize("field", [field.name for field in fields(Profile)])
def test_every_field_of_a_profile_is_described_by_a_sentence(field: str) -> None:
    pages = ("providers.md", "thinking.md", "tools.md", "generate.md", "extensions.md")
    told = [(ROOT / "docs" / page).read_text() for page in pages]
    assert any(f"`{field}`" in page or f"`{field}:" in page for page in told)
