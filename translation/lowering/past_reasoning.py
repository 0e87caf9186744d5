"""Renders past reasoning items as text, for upstreams that take it back."""

from translation.representation.json_types import Item


def past_reasoning_text(item: Item) -> str:
    """Returns the text of a reasoning item, or else of its summary.

    It is empty if the item has neither in plain text.
    """
    texts = [part["text"] for part in item.get("content") or () if part.get("type") == "reasoning_text"]
    return "".join(texts) or "\n\n".join(part["text"] for part in item.get("summary") or ())


def is_signature_only(item: Item) -> bool:
    """Whether a reasoning item holds no reasoning, only signatures of other output. Dropping such an item loses
    nothing.

    All details of such an item have `"thought": false`.
    """
    details = item.get("details")
    if not isinstance(details, list) or not details or item.get("encrypted_content") or past_reasoning_text(item):
        return False
    return all(isinstance(detail, dict) and detail.get("thought") is False for detail in details)
