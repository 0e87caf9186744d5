"""Files that parts name: which parts do, and what takes the place of their ids."""

from typing import Any

import pytest

from translation.errors import InvalidRequest
from translation.lowering.input_files import (
    FileContent,
    FilesNeeded,
    count_file_ids,
    find_file_ids,
    put_files_in,
    take_files_out,
)
from translation.representation.items import new_input_text
from translation.representation.turn import Turn

TEXT = FileContent("a.txt", "data:text/plain;base64,YQ==", is_image=False, text="a")
IMAGE = FileContent("a.png", "data:image/png;base64,YQ==", is_image=True, text=None)


def message(*parts: object) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": list(parts)}


def test_only_parts_without_other_content_name_files() -> None:
    items: list[dict[str, Any]] = [
        message({"type": "input_file", "file_id": "f1"}, {"type": "input_image", "file_id": "f2"}),
        message(
            {"type": "input_file", "file_id": "f3", "file_data": "x"},
            {"type": "input_image", "file_id": "f4", "image_url": "x"},
            {"type": "input_image", "file_id": None},
            {"type": "output_text", "text": "a", "annotations": [{"type": "file_citation", "file_id": "f5"}]},
            {"type": "container_file", "file_id": "f6"},
            "text",
        ),
        {"type": "message", "role": "user", "content": "text"},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_file", "file_id": "f1"}]},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_file", "file_id": "f7"}]},
    ]
    assert find_file_ids(items) == {
        "f1": "input[0].content[0].file_id",
        "f2": "input[0].content[1].file_id",
        "f7": "input[4].output[0].file_id",
    }
    assert count_file_ids(items)["f7"] == 1
    assert count_file_ids([*items, *items])["f7"] == 2


@pytest.mark.parametrize(
    ("takes_files", "filled"),
    [
        (True, {"type": "input_file", "file_data": TEXT.data_url, "filename": "a.txt"}),
        (False, new_input_text("a.txt:\na")),
    ],
)
def test_a_text_is_data_or_text(takes_files: bool, filled: object) -> None:
    plain = message(new_input_text("read"))
    items = [plain, message(new_input_text("read"), {"type": "input_file", "file_id": "f1"})]
    turn = put_files_in(Turn(model="m", items=items), {"f1": TEXT}, takes_files=takes_files)
    assert turn.items == [plain, message(new_input_text("read"), filled)]
    assert turn.items[0] is plain


def test_a_name_of_the_client_is_kept() -> None:
    items = [message({"type": "input_file", "file_id": "f1", "filename": "own.txt"})]
    turn = put_files_in(Turn(model="m", items=items), {"f1": TEXT}, takes_files=True)
    assert turn.items[0]["content"][0]["filename"] == "own.txt"


def test_an_image_needs_a_file_that_is_one() -> None:
    items = [message({"type": "input_image", "file_id": "f1", "detail": "low"})]
    turn = put_files_in(Turn(model="m", items=items), {"f1": IMAGE}, takes_files=False)
    assert turn.items == [message({"type": "input_image", "image_url": IMAGE.data_url, "detail": "low"})]
    with pytest.raises(InvalidRequest) as refused:
        put_files_in(Turn(model="m", items=items), {"f1": TEXT}, takes_files=True)
    assert refused.value.param == "input[0].content[0].file_id"


def test_needed_files_are_named_by_their_parameters() -> None:
    params = {"file-1": "input[0].content[0].file_id", "file-2": "input[3].output[1].file_id"}
    needed = FilesNeeded(params, {"file-1": 1, "file-2": 1})
    assert needed.params.keys() == {"file-1", "file-2"}
    assert str(needed) == "input[0].content[0].file_id, input[3].output[1].file_id"


@pytest.mark.parametrize("takes_files", [False, True])
def test_files_are_taken_out_as_they_were_put_in(takes_files: bool) -> None:
    contents = {"f1": TEXT, "f2": IMAGE}
    items: list[dict[str, Any]] = [
        message({"type": "input_file", "file_id": "f1"}, {"type": "input_image", "file_id": "f2", "detail": "low"}),
        message(new_input_text("a.txt:\nother"), new_input_text("no file"), {"type": "input_text", "text": None}),
        {"type": "message", "role": "user", "content": "text"},
    ]
    filled = put_files_in(Turn(model="m", items=items), contents, takes_files=takes_files).items
    emptied = take_files_out(filled, contents)
    assert emptied[0]["content"] == [
        {"type": "input_file", "file_id": "f1", "filename": "a.txt"},
        {"type": "input_image", "file_id": "f2", "detail": "low"},
    ]
    assert emptied[1:] == items[1:]
    assert take_files_out(items[1:], {}) == items[1:]
