"""What tools returned, no longer than the upstream is to be told."""

from collections.abc import Sequence
from typing import Any, Final

from translation.representation.items import CALL_OUTPUT_TYPES
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss

TRUNCATION_MARK: Final = "[truncated]"
"""How a text ends that was cut."""

_TEXT_PART_TYPES: Final = ("text", "input_text", "output_text")

_MEDIA_NAMES: Final = {
    "input_image": "An image",
    "image_url": "An image",
    "input_audio": "A recording",
    "input_file": "A file",
    "file": "A file",
}


def truncate_outputs(items: Sequence[Item], limit: int, losses: list[Loss]) -> Sequence[Item]:
    """The items with no output of a call longer than `limit` bytes; the same object where none is."""
    cut: dict[int, Item] = {}
    for place, item in enumerate(items):
        if item.get("type") in CALL_OUTPUT_TYPES:
            output = truncate_output(item["output"], limit, f"input[{place}].output", losses)
            if output is not item["output"]:
                cut[place] = {**item, "output": output}
    return [cut.get(place, item) for place, item in enumerate(items)] if cut else items


def truncate_output(output: str | list[Json], limit: int, param: str, losses: list[Loss]) -> str | list[Json]:
    """One output, as a text or in parts of either API, of at most `limit` bytes; the same object where it is.

    Text is cut and says so at its end, media make way for a note: both are losses.
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
    # No character is more than four bytes: most are known to fit without being encoded.
    return len(text) * 4 <= limit or len(text.encode()) <= limit


def _truncate(text: str, limit: int, param: str, losses: list[Loss]) -> str:
    losses.append(Loss(param, "truncated"))
    return text.encode()[: max(limit - len(TRUNCATION_MARK), 0)].decode(errors="ignore") + TRUNCATION_MARK


def _size(value: Any) -> int:
    """The bytes of what a part holds, wherever in it that is."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(map(_size, value.values()))
    return 0


def _media_note(part: Json, size: int, limit: int, *, output: Sequence[Json]) -> Json:
    told = (
        f"[{_MEDIA_NAMES.get(part['type'], 'A part')} of {size} bytes was left out: an output may have {limit} bytes.]"
    )
    in_chat = part["type"] in ("image_url", "file") or any(each["type"] == "text" for each in output)
    return {"type": "text" if in_chat else "input_text", "text": told}
