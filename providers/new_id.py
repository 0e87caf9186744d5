"""Random ids for items and calls."""

from os import urandom


def new_id(prefix: str, /) -> str:
    """`prefix`, an underscore and 192 random bits in hex: unguessable, as long as OpenAI's own."""
    return f"{prefix}_{urandom(24).hex()}"
