"""Lowers content parts to chat's form. Media stay media, text files become text, no base64 gets into a prompt."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from translation.errors import Unrepresentable
from translation.lowering.media import parse_text_data_url, refuse_google_file, require_address
from translation.lowering.text_parts import TEXT_KEYS, find_single_text
from translation.representation.json_types import Json
from translation.representation.loss import Loss


def lower_parts(parts: Sequence[Json], index: int, field: str, losses: list[Loss]) -> list[Json]:
    """Returns user content, the `field` of the item at `index`, as chat parts. Losses are appended to `losses`.

    Raises Unrepresentable for a part that chat cannot represent. The error's `param` is the part's path in the input.
    """
    lowered: list[Json] = []
    for part in parts:
        kind = part.get("type", "")
        if kind in TEXT_KEYS:
            lowered.append({"type": "text", "text": part.get(TEXT_KEYS[kind]) or ""})
            continue
        param = f"input[{index}].{field}[{len(lowered)}]"
        if kind not in _MEDIA_LOWERERS:
            raise Unrepresentable(f"this model's API has no content of type {kind!r}", param=param)
        lowered.append(_MEDIA_LOWERERS[kind](part, param, losses))
    return lowered


def lower_content(parts: Sequence[Json], index: int, losses: list[Loss]) -> str | list[Json]:
    """Returns the content of the user message at `index`: a string for no part or a single text, else chat parts.

    Many chat templates accept only a string. Raises what `lower_parts` raises.
    """
    if (text := find_single_text(parts)) is not None:
        return text
    lowered = lower_parts(parts, index, "content", losses)
    if not lowered:
        return ""
    return lowered[0]["text"] if len(lowered) == 1 and lowered[0]["type"] == "text" else lowered


def _lower_image(part: Json, param: str, losses: list[Loss]) -> Json:
    url = part.get("image_url")
    if not url:
        raise Unrepresentable("images are not stored here: send image_url, not file_id", param=f"{param}.file_id")
    require_address(url, f"{param}.image_url")
    refuse_google_file(url, f"{param}.image_url")
    image = {"url": url}
    if detail := part.get("detail"):
        image["detail"] = detail
        if detail == "original":
            image["detail"] = "high"
            losses.append(Loss(f"{param}.detail", "original as high"))
    return {"type": "image_url", "image_url": image}


def _lower_audio(part: Json, _param: str, _losses: list[Loss]) -> Json:
    return {"type": "input_audio", "input_audio": part["input_audio"]}


def _lower_file(part: Json, param: str, losses: list[Loss]) -> Json:
    for key in ("file_id", "file_url"):
        if part.get(key):
            raise Unrepresentable(
                f"files are neither stored nor fetched here: send file_data, not {key}", param=f"{param}.{key}"
            )
    if part.get("detail") not in (None, "auto"):
        losses.append(Loss(f"{param}.detail", "dropped"))
    source = part.get("file_data") or ""
    text = parse_text_data_url(source, f"{param}.file_data")
    if text is None:
        filename = {"filename": part["filename"]} if part.get("filename") else {}
        return {"type": "file", "file": {"file_data": source, **filename}}
    return {"type": "text", "text": f"{part['filename']}:\n{text}" if part.get("filename") else text}


_MEDIA_LOWERERS: Final[Mapping[str, Callable[[Json, str, list[Loss]], Json]]] = {
    "input_image": _lower_image,
    "input_audio": _lower_audio,
    "input_file": _lower_file,
}
