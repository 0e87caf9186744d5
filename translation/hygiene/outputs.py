"""Truncates the outputs of calls to the limit of the profile."""

from collections.abc import Sequence
from typing import Any, Final

from translation.representation.items import CALL_OUTPUT_TYPES
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss

TRUNCATION_MARK: Final = "[truncated]"
"""The end of a text that was truncated."""

_TEXT_PART_TYPES: Final = ("text", "input_text", "output_text")

_MEDIA_NAMES: Final = {
    "input_image": "An image",
    "image_url": "An image",
    "input_audio": "A recording",
    "input_file": "A file",
    "file": "A file",
}


def truncate_outputs(items: Sequence[Item], limit: int, losses: list[Loss]) -> Sequence[Item]:
    """Truncates each output of a call to `limit` bytes. Returns `items` itself if no output is longer."""
    truncated: dict[int, Item] = {}
    for index, item in enumerate(items):
        if item.get("type") in CALL_OUTPUT_TYPES:
            output = truncate_output(item["output"], limit, f"input[{index}].output", losses)
            if output is not item["output"]:
                truncated[index] = {**item, "output": output}
    return [truncated.get(index, item) for index, item in enumerate(items)] if truncated else items


def truncate_output(output: str | list[Json], limit: int, param: str, losses: list[Loss]) -> str | list[Json]:
    """Truncates one output, a text or parts of either API, to `limit` bytes. Returns it unchanged if it is not longer.

    Text is cut and ends with `TRUNCATION_MARK`. Media are replaced by a note. Both are losses at `param`.
    """
    if isinstance(output, str):
        return output if _fits(output, limit) else _truncate(output, limit, param, losses)
    room = limit
    parts: list[Json] = []
    is_cut = False
    for part in output:
        is_text = part.get("type") in _TEXT_PART_TYPES
        size = len(part["text"].encode()) if is_text else _size(part)
        if size <= room:
            parts.append(part)
            room -= size
        elif not is_text:
            parts.append(_media_note(part, size, limit, output=output))
            losses.append(Loss(param, "media left out"))
        elif not is_cut:
            parts.append({**part, "text": _truncate(part["text"], room, param, losses)})
            is_cut, room = True, 0
    return (
        parts
        if len(parts) < len(output) or any(new is not old for new, old in zip(parts, output, strict=True))
        else output
    )


def _fits(text: str, limit: int) -> bool:
    # A character has at most four bytes, so most texts are known to fit without encoding them.
    return len(text) * 4 <= limit or len(text.encode()) <= limit


def _truncate(text: str, limit: int, param: str, losses: list[Loss]) -> str:
    losses.append(Loss(param, "truncated"))
    return text.encode()[: max(limit - len(TRUNCATION_MARK), 0)].decode(errors="ignore") + TRUNCATION_MARK


def _size(value: Any) -> int:
    """Returns the total length of the strings in a part."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(map(_size, value.values()))
    return 0


def _media_note(part: Json, size: int, limit: int, *, output: Sequence[Json]) -> Json:
    note = (
        f"[{_MEDIA_NAMES.get(part['type'], 'A part')} of {size} bytes was left out: an output may have {limit} bytes.]"
    )
    in_chat = part["type"] in ("image_url", "file") or any(each["type"] == "text" for each in output)
    return {"type": "text" if in_chat else "input_text", "text": note}
