"""Images in replies of chat."""

from typing import Any

import pytest

from tests.unit.support.translator_drivers import counting_ids
from translation.chat.reply_objects import build_image_entry, build_image_item
from translation.representation.json_types import Item, Json

IMAGE: Item = {
    "id": "ig_1",
    "type": "image_generation_call",
    "status": "completed",
    "result": "aGk=",
    "output_format": "webp",
}
ENTRY: Json = {"type": "image_url", "image_url": {"url": "data:image/webp;base64,aGk="}}


@pytest.mark.parametrize("entry", [ENTRY, {"image_url": "data:image/webp;base64,aGk="}])
def test_an_image_in_either_form_is_the_item_of_the_responses_api(entry: Json) -> None:
    assert build_image_item(entry, counting_ids()) == IMAGE


@pytest.mark.parametrize(
    "entry", ["data:image/webp;base64,aGk=", {}, {"image_url": {"url": "https://e.org/a.png"}}, {"image_url": {}}, None]
)
def test_an_entry_without_image_data_is_no_item(entry: Any) -> None:
    assert build_image_item(entry, counting_ids()) is None


def test_the_item_of_an_image_becomes_an_entry_again() -> None:
    assert build_image_entry(IMAGE) == ENTRY
    unnamed = {key: value for key, value in IMAGE.items() if key != "output_format"}
    assert build_image_entry(unnamed) == {**ENTRY, "image_url": {"url": "data:image/png;base64,aGk="}}


@pytest.mark.parametrize("item", [{**IMAGE, "result": None}, {"type": "message", "role": "assistant", "content": []}])
def test_an_item_without_an_image_has_no_entry(item: Item) -> None:
    assert build_image_entry(item) is None
