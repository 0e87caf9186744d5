"""Lowers content parts to one text and a list of images."""

from collections.abc import Sequence
from typing import NamedTuple

from translation.errors import Unrepresentable
from translation.lowering.media import parse_media_data_url, parse_text_data_url
from translation.lowering.text_parts import TEXT_KEYS, text_of_part
from translation.representation.json_types import Json
from translation.representation.loss import Loss


class MessageContent(NamedTuple):
    """The content of one message."""

    text: str
    images: list[str]
    """Images in base64."""


def lower_parts(parts: Sequence[Json], param: str, losses: list[Loss]) -> MessageContent:
    """Returns user content or a tool's output as a message's content. Losses are appended to `losses`.

    Raises Unrepresentable for a part that Ollama cannot represent. The error's `param` is the part's path under
    `param`.
    """
    texts: list[str] = []
    images: list[str] = []
    for index, part in enumerate(parts):
        kind, part_param = part.get("type", ""), f"{param}[{index}]"
        if kind in TEXT_KEYS:
            texts.append(text_of_part(part))
        elif kind == "input_image":
            images.append(_lower_image(part, part_param, losses))
        elif kind == "input_file":
            texts.append(_lower_file(part, part_param, losses))
        else:
            raise Unrepresentable(f"this model's API has no content of type {kind!r}", param=part_param)
    return MessageContent("\n".join(texts), images)


def _lower_image(part: Json, param: str, losses: list[Loss]) -> str:
    if part.get("file_id") and not part.get("image_url"):
        raise Unrepresentable("images are not stored here: send image_url, not file_id", param=f"{param}.file_id")
    media = parse_media_data_url(part.get("image_url") or "", f"{param}.image_url")
    if media is None:
        message = "images are neither stored nor fetched for this model: send a data URL as image_url"
        raise Unrepresentable(message, param=f"{param}.image_url")
    if not media.media_type.startswith("image/"):
        raise Unrepresentable(f"this model reads images, not {media.media_type}", param=f"{param}.image_url")
    if part.get("detail") not in (None, "auto"):
        losses.append(Loss(f"{param}.detail", "dropped"))
    return media.base64


def _lower_file(part: Json, param: str, losses: list[Loss]) -> str:
    for key in ("file_id", "file_url"):
        if part.get(key):
            message = f"files are neither stored nor fetched here: send file_data, not {key}"
            raise Unrepresentable(message, param=f"{param}.{key}")
    text = parse_text_data_url(part.get("file_data") or "", f"{param}.file_data")
    if text is None:
        raise Unrepresentable("this model reads only text files", param=f"{param}.file_data")
    if part.get("detail") not in (None, "auto"):
        losses.append(Loss(f"{param}.detail", "dropped"))
    return f"{part['filename']}:\n{text}" if part.get("filename") else text
