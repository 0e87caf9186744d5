"""Past reasoning as text, for upstreams that read it again."""

from translation.representation.json_types import Item


def past_reasoning_text(item: Item) -> str:
    """The reasoning itself, else its summary; nothing where neither can be read."""
    texts = [part["text"] for part in item.get("content") or () if part.get("type") == "reasoning_text"]
    return "".join(texts) or "\n\n".join(part["text"] for part in item.get("summary") or ())


def is_signature_only(item: Item) -> bool:
    """Whether it holds no thought at all, only what a model signed its words with: whoever cannot read that misses
    nothing. The details of such an item say `"thought": false`."""
    details = item.get("details")
    if not isinstance(details, list) or not details or item.get("encrypted_content") or past_reasoning_text(item):
        return False
    return all(isinstance(detail, dict) and detail.get("thought") is False for detail in details)
