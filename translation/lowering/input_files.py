"""Files that a request names by their ids: finds them in a turn, and puts their contents in place of the ids."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from translation.errors import InvalidRequest
from translation.representation.json_types import Item, Json
from translation.representation.turn import Turn

_IMAGE: Final = "input_image"
_FILE: Final = "input_file"
_CONTENT_KEYS: Final = {
    _IMAGE: ("image_url",),
    _FILE: ("file_data", "file_url"),
}
"""Type of a part that may name a file -> its other keys for content. A part with one of them needs no file."""


class FileContent(NamedTuple):
    """The content of a file, as models can read it. `text` is None if it is not text."""

    filename: str
    data_url: str
    is_image: bool
    text: str | None


class FilesNeeded(Exception):
    """A turn names files whose contents have to be loaded before it is planned.

    `params` maps the id of each file to the first parameter that names it, `counts` to the number of places that do.
    """

    def __init__(self, params: Mapping[str, str], counts: Mapping[str, int]) -> None:
        super().__init__(", ".join(params.values()))
        self.params = params
        self.counts = counts


def find_file_ids(items: Sequence[Item]) -> dict[str, str]:
    """Returns the ids of files that content parts name, each with the first parameter that does."""
    params: dict[str, str] = {}
    for index, item in enumerate(items):
        for key, place, part in _iterate_parts(item):
            if _names_file(part):
                params.setdefault(part["file_id"], f"input[{index}].{key}[{place}].file_id")
    return params


def count_file_ids(items: Sequence[Item]) -> Mapping[str, int]:
    """Returns the ids of files that content parts name, each with the number of parts that do."""
    return Counter(part["file_id"] for item in items for _, _, part in _iterate_parts(item) if _names_file(part))


def put_files_in(turn: Turn, contents: Mapping[str, FileContent], *, takes_files: bool) -> Turn:
    """Returns the turn with the contents of files in place of their ids.

    An image becomes a data URL. A file becomes data, or, if it is text and the upstream does not take files, a part of
    text. Raises InvalidRequest for an image part whose file is none.
    """
    items = [_fill_item(item, f"input[{index}]", contents, takes_files) for index, item in enumerate(turn.items)]
    return replace(turn, items=items)


def take_files_out(items: Sequence[Item], contents: Mapping[str, FileContent]) -> list[Item]:
    """Returns items of a turn that `put_files_in` changed, with the ids of the files in place of these contents."""
    ids = {content.data_url: file_id for file_id, content in contents.items()}
    texts = {content.text: file_id for file_id, content in contents.items() if content.text is not None}
    return [_empty_item(item, ids, texts) for item in items]


def _empty_item(item: Item, ids: Mapping[str, str], texts: Mapping[str, str]) -> Item:
    emptied: dict[str, Any] = {}
    for key, place, part in _iterate_parts(item):
        if (named := _empty_part(part, ids, texts)) is not part:
            emptied.setdefault(key, list(item[key]))[place] = named
    return {**item, **emptied} if emptied else item


def _empty_part(part: Json, ids: Mapping[str, str], texts: Mapping[str, str]) -> Json:
    for kind, keys in _CONTENT_KEYS.items():
        for key in keys:
            if part.get("type") == kind and (file_id := ids.get(part.get(key) or "")) is not None:
                return {**{name: value for name, value in part.items() if name != key}, "file_id": file_id}
    if part.get("type") == "input_text" and isinstance(text := part.get("text"), str):
        name, gap, rest = text.partition(":\n")
        if gap and (file_id := texts.get(rest)) is not None:
            return {"type": _FILE, "file_id": file_id, "filename": name}
    return part


def _iterate_parts(item: Item) -> Iterator[tuple[str, int, Json]]:
    """Yields the parts of an item that are objects, with the key that they are in and their places."""
    for key in ("content", "output"):
        parts = item.get(key)
        if isinstance(parts, list):
            for place, part in enumerate(parts):
                if isinstance(part, dict):
                    yield key, place, part


def _names_file(part: Json) -> bool:
    if not isinstance(part.get("file_id"), str):
        return False
    other_keys = _CONTENT_KEYS.get(part.get("type", ""))
    return other_keys is not None and not any(part.get(key) for key in other_keys)


def _fill_item(item: Item, param: str, contents: Mapping[str, FileContent], takes_files: bool) -> Item:
    filled: dict[str, Any] = {}
    for key, place, part in _iterate_parts(item):
        if _names_file(part):
            parts = filled.setdefault(key, list(item[key]))
            parts[place] = _fill_part(
                part, f"{param}.{key}[{place}].file_id", contents[part["file_id"]], takes_files=takes_files
            )
    return {**item, **filled} if filled else item


def _fill_part(part: Json, param: str, content: FileContent, *, takes_files: bool) -> Json:
    rest = {key: value for key, value in part.items() if key != "file_id"}
    if part["type"] == _IMAGE:
        if not content.is_image:
            raise InvalidRequest(
                f"Invalid value for '{param}': the file is no image that models read: PNG, JPEG, GIF or WebP.",
                param=param,
            )
        return {**rest, "image_url": content.data_url}
    name = part.get("filename") or content.filename
    if content.text is not None and not takes_files:
        return {"type": "input_text", "text": f"{name}:\n{content.text}"}
    return {**rest, "file_data": content.data_url, "filename": name}
