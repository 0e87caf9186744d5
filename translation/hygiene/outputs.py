"""Truncates the outputs of calls to the limit of the profile, and replaces media in them that cannot be read."""

from collections.abc import Sequence
from typing import Any, Final

from translation.hygiene.output_media import find_media_fault, name_media
from translation.representation.items import CALL_OUTPUT_TYPES
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss

TRUNCATION_MARK: Final = "[truncated]"
"""The end of a text that was truncated."""

_NAMES: Final = {"image": "An image", "recording": "A recording", "file": "A file", "part": "A part"}

_TEXT_PART_TYPES: Final = ("text", "input_text", "output_text")


def truncate_outputs(items: Sequence[Item], limit: int, losses: list[Loss]) -> Sequence[Item]:
    """Truncates each output of a call as `truncate_output` does. Returns `items` itself if nothing changes."""
    truncated: dict[int, Item] = {}
    for index, item in enumerate(items):
        if item.get("type") in CALL_OUTPUT_TYPES:
            output = item["output"]
            if isinstance(output, str) and _fits(output, limit):
                continue
            shortened = truncate_output(output, limit, f"input[{index}].output", losses)
            if shortened is not output:
                truncated[index] = {**item, "output": shortened}
    return [truncated.get(index, item) for index, item in enumerate(items)] if truncated else items


def truncate_output(output: str | list[Json], limit: int, param: str, losses: list[Loss]) -> str | list[Json]:
    """Truncates one output, a text or parts in the form of Responses or chat, to `limit` bytes.

    Returns it unchanged if it is not longer. Text is cut and ends with `TRUNCATION_MARK`. Media are replaced by a note,
    and invalid media by a text that says what is wrong with them. All are losses at `param`.
    """
    if isinstance(output, str):
        return output if _fits(output, limit) else _truncate(output, limit, param, losses)
    room = limit
    parts: list[Json] = []
    is_cut = False
    for part in output:
        is_text = part.get("type") in _TEXT_PART_TYPES
        if not is_text and (fault := find_media_fault(part)):
            text = f"[The {name_media(part)} of this output cannot be read: {fault}.]"
            part = _text_part(text, part, output)
            losses.append(Loss(param, "media replaced"))
            is_text = True
        size = len(part["text"].encode()) if is_text else _size(part)
        if size <= room:
            parts.append(part)
            room -= size
        elif not is_text:
            note = f"[{_NAMES[name_media(part)]} of {size} bytes was left out: an output may have {limit} bytes.]"
            parts.append(_text_part(note, part, output))
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


def _text_part(text: str, replaced: Json, output: Sequence[Json]) -> Json:
    """Returns a text part in the API of the output."""
    in_chat = replaced["type"] in ("image_url", "file") or any(part["type"] == "text" for part in output)
    return {"type": "text" if in_chat else "input_text", "text": text}
