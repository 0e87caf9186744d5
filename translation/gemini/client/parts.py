"""Lifts the media and texts of contents to the content parts of Responses items."""

from collections.abc import Iterator, Mapping
from typing import Final

import orjson

from translation.errors import Unrepresentable
from translation.lowering.media import UNNAMED_FILE, UNNAMED_PDF
from translation.representation.items import new_input_text
from translation.representation.json_types import Json
from translation.representation.loss import Loss

_AUDIO_FORMATS: Final[Mapping[str, str]] = {"mpeg": "mp3", "x-wav": "wav", "wave": "wav"}
"""Subtype of an audio type -> `input_audio.format`, where the two differ."""

_GOOGLE_FILES: Final = ("files/", "gs://")
"""The prefix of URIs of files that only Google's servers can read."""

_TO_STANDARD: Final = str.maketrans("-_", "+/")

_HINTS: Final = ("mediaResolution", "videoMetadata")
"""Keys of a part that say how its medium is read, which no other API has."""


def lift_medium(part: Json, param: str, losses: list[Loss]) -> Iterator[Json]:
    """Yields the parts of a user's text or medium, whose path is `param`. Losses are appended to `losses`.

    Yields nothing for a part of another kind. Raises Unrepresentable for a file that only Google's servers have.
    """
    for lifted in _lift_part(part, param, losses):
        if _find_lost_name(part, lifted) is not None:
            losses.append(
                Loss(f"{param}.{'inlineData' if 'inlineData' in part else 'fileData'}.displayName", "dropped")
            )
        yield lifted


def lift_result_medium(part: Json, param: str, losses: list[Loss]) -> Iterator[Json]:
    """Yields the parts of a medium beside a function's response, as `lift_medium` does.

    The response refers to a medium by its name, so an image or a recording, which has none here, follows a text with
    the reference. https://ai.google.dev/gemini-api/docs/function-calling#multimodal
    """
    for lifted in _lift_part(part, param, losses):
        if (name := _find_lost_name(part, lifted)) is not None:
            yield new_input_text(f"{orjson.dumps({'$ref': name}).decode()} is:")
        yield lifted


def _lift_part(part: Json, param: str, losses: list[Loss]) -> Iterator[Json]:
    losses += [Loss(f"{param}.{key}", "dropped") for key in _HINTS if key in part]
    if "text" in part:
        yield new_input_text(part["text"])
    elif "inlineData" in part:
        yield _lift_blob(part["inlineData"])
    elif "fileData" in part:
        yield _lift_file(part["fileData"], f"{param}.fileData")


def _find_lost_name(part: Json, lifted: Json) -> str | None:
    """Returns the name of a medium, unless the part that it was lifted to has the name, as files do."""
    medium = part.get("inlineData") or part.get("fileData") or {}
    return None if lifted["type"] == "input_file" else medium.get("displayName") or None


def _lift_blob(blob: Json) -> Json:
    kind, data = blob["mimeType"].lower(), blob["data"]
    if "-" in data or "_" in data:
        data = data.translate(_TO_STANDARD)  # the SDK for Python sends the alphabet of URLs
    family, _, subtype = kind.partition("/")
    if family == "image":
        return {"type": "input_image", "image_url": f"data:{kind};base64,{data}"}
    if family == "audio":
        subtype = subtype.partition(";")[0]
        return {
            "type": "input_audio",
            "input_audio": {"data": data, "format": _AUDIO_FORMATS.get(subtype, subtype)},
        }
    name = blob.get("displayName") or (UNNAMED_PDF if subtype == "pdf" else UNNAMED_FILE)
    return {"type": "input_file", "filename": name, "file_data": f"data:{kind};base64,{data}"}


def _lift_file(file: Json, param: str) -> Json:
    uri, kind = file["fileUri"], file.get("mimeType") or ""
    if uri.startswith(_GOOGLE_FILES):
        raise Unrepresentable(
            "files are not stored here: send the content as inlineData, or an https address", param=f"{param}.fileUri"
        )
    if kind.startswith("image/"):
        return {"type": "input_image", "image_url": uri}
    name = file.get("displayName")
    return {"type": "input_file", "file_url": uri, **({"filename": name} if name else {})}
