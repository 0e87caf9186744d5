"""Images that models make, in chat: OpenRouter and others send them in `images` of a message or delta.

https://openrouter.ai/docs/features/multimodal/image-generation
"""

import re
from typing import Any, Final

from translation.representation.items import NewId
from translation.representation.json_types import Item, Json

IMAGE_ITEM: Final = "image_generation_call"

_DATA_URL: Final = re.compile(r"data:image/([A-Za-z0-9.+-]+);base64,(.+)", re.DOTALL)


def build_image_item(image: Any, new_id: NewId) -> Item | None:
    """Returns the item for an entry of `images` or an image part of the content; None if it has no image data."""
    match image:
        case {"image_url": {"url": str(url)}} | {"image_url": str(url)}:
            if (data := _DATA_URL.fullmatch(url)) is not None:
                item = {"id": new_id("ig"), "type": IMAGE_ITEM, "status": "completed"}
                return {**item, "result": data[2], "output_format": data[1]}
    return None


def build_image_entry(item: Item) -> Json | None:
    """Returns the entry of `images` for an image that the upstream has made; None for an item without one."""
    if not item.get("result"):
        return None
    url = f"data:image/{item.get('output_format') or 'png'};base64,{item['result']}"
    return {"type": "image_url", "image_url": {"url": url}}
