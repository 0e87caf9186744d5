"""Lowers content parts to Gemini's parts. Media stay media, text files become text."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from translation.errors import InvalidRequest, Unrepresentable
from translation.lowering.media import (
    UNNAMED_FILE,
    UNNAMED_PDF,
    find_file_name,
    parse_media_data_url,
    parse_text_data_url,
    require_address,
)
from translation.lowering.text_parts import text_of_part
from translation.representation.json_types import Json
from translation.representation.loss import Loss

_MEDIA_TYPES: Final = {
    "gif": "image/gif",
    "heic": "image/heic",
    "heif": "image/heif",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "pdf": "application/pdf",
    "png": "image/png",
    "webp": "image/webp",
}
"""Extension of a file name -> media type, for files without one."""

_AUDIO_TYPES: Final = {"mp3": "audio/mp3", "wav": "audio/wav"}
"""`input_audio.format` -> media type. Other formats become `audio/FORMAT`."""


def lower_parts(parts: Sequence[Json], param: str, losses: list[Loss]) -> list[Json]:
    """Returns content as Gemini's parts. Losses are appended to `losses`.

    Raises Unrepresentable for a part that Gemini cannot represent, and InvalidRequest for a file of unknown type. The
    error's `param` is the part's path under `param`.
    """
    return [_lower_part(part, f"{param}[{index}]", losses) for index, part in enumerate(parts)]


def _lower_part(part: Json, param: str, losses: list[Loss]) -> Json:
    kind = part.get("type", "")
    if kind not in _PART_LOWERERS:
        raise Unrepresentable(f"this model's API has no content of type {kind!r}", param=param)
    return _PART_LOWERERS[kind](part, param, losses)


def _lower_text(part: Json, _param: str, _losses: list[Loss]) -> Json:
    return {"text": text_of_part(part)}


def _lower_image(part: Json, param: str, losses: list[Loss]) -> Json:
    url = part.get("image_url")
    if not url:
        raise Unrepresentable("images are not stored here: send image_url, not file_id", param=f"{param}.file_id")
    if part.get("detail") not in (None, "auto"):
        losses.append(Loss(f"{param}.detail", "dropped"))
    require_address(url, f"{param}.image_url")
    return _inline_data(url, f"{param}.image_url") or _file_data(url)


def _lower_audio(part: Json, _param: str, _losses: list[Loss]) -> Json:
    audio = part["input_audio"]
    media_type = _AUDIO_TYPES.get(audio["format"], f"audio/{audio['format']}")
    return {"inlineData": {"mimeType": media_type, "data": audio["data"]}}


def _lower_file(part: Json, param: str, losses: list[Loss]) -> Json:
    if part.get("file_id"):
        raise Unrepresentable("files are not stored here: send file_data, not file_id", param=f"{param}.file_id")
    if part.get("detail") not in (None, "auto"):
        losses.append(Loss(f"{param}.detail", "dropped"))
    name = part.get("filename")
    if url := part.get("file_url"):
        return _file_data(url)
    source, data_param = part.get("file_data") or "", f"{param}.file_data"
    if (text := parse_text_data_url(source, data_param)) is not None:
        return {"text": f"{name}:\n{text}" if name else text}
    if name not in (None, "", UNNAMED_PDF, UNNAMED_FILE):
        losses.append(Loss(f"{param}.filename", "dropped"))
    if (medium := _inline_data(source, data_param)) is not None:
        return medium
    media_type = _media_type_of(name or "")
    if media_type is None:
        raise InvalidRequest("The media type of this file is unknown: send it as a data URL.", param=data_param)
    return {"inlineData": {"mimeType": media_type, "data": source}}


def _inline_data(source: str, param: str) -> Json | None:
    media = parse_media_data_url(source, param)
    return media and {"inlineData": {"mimeType": media.media_type, "data": media.base64}}


def _file_data(url: str) -> Json:
    """Returns a part that the upstream fetches: one of its own files, or a public URL if the model supports that."""
    media_type = _media_type_of(find_file_name(url))
    return {"fileData": {"fileUri": url} | ({"mimeType": media_type} if media_type else {})}


def _media_type_of(name: str) -> str | None:
    return _MEDIA_TYPES.get(name.rpartition(".")[2].lower())


_PART_LOWERERS: Final[Mapping[str, Callable[[Json, str, list[Loss]], Json]]] = {
    "input_text": _lower_text,
    "output_text": _lower_text,
    "text": _lower_text,
    "refusal": _lower_text,
    "input_image": _lower_image,
    "input_audio": _lower_audio,
    "input_file": _lower_file,
}
