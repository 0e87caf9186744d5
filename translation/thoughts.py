"""Past reasoning as text, for upstreams that read it again."""

from translation.json_types import Item


def text_of(item: Item) -> str:
    """The reasoning itself, else its summary; nothing where neither can be read."""
    texts = [part["text"] for part in item.get("content") or () if part.get("type") == "reasoning_text"]
    return "".join(texts) or "\n\n".join(part["text"] for part in item.get("summary") or ())
