"""Random ids for items and calls."""

from secrets import token_hex


def new_id(prefix: str, /) -> str:
    """`prefix`, an underscore and 192 random bits in hex: unguessable, as long as OpenAI's own."""
    return f"{prefix}_{token_hex(24)}"
