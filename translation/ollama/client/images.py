"""Lifts images, which the API accepts as base64 without a media type."""

from collections.abc import Sequence
from typing import Final

from translation.errors import InvalidRequest
from translation.representation.json_types import Json

_TYPES_BY_HEAD: Final = (
    ("iVBORw0KGgo", "image/png"),
    ("/9j/", "image/jpeg"),
    ("R0lGOD", "image/gif"),
    ("UklGR", "image/webp"),
)
"""(how images of a type begin in base64, the type)."""


def lift_images(images: Sequence[str], param: str) -> list[Json]:
    """Returns an `input_image` part for each image. Raises InvalidRequest for one of an unknown type.

    `param` is the path of the list.
    """
    return [_lift_image(image, f"{param}[{index}]") for index, image in enumerate(images)]


def _lift_image(image: str, param: str) -> Json:
    if "\n" in image:
        image = image.replace("\r", "").replace("\n", "")
    for head, media_type in _TYPES_BY_HEAD:
        if image.startswith(head):
            return {"type": "input_image", "image_url": f"data:{media_type};base64,{image}"}
    raise InvalidRequest(f"'{param}' is no PNG, JPEG, GIF or WebP image in base64.", param=param)
