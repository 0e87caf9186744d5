"""The texts of requests and replies. They have what real text has, and what costs more than plain words.

In each 64 tokens are a line break, quotes, backslashes, a character of two bytes, and one beyond the 16 bits of an
escape. Fast paths for plain text alone would make figures that no user sees.
"""

from itertools import cycle, islice
from typing import Final

_PERIOD: Final = 64
_SPECIAL_TOKENS: Final = {11: "\n", 23: ' "quoted"', 35: " C:\\dir\\", 47: " é", 59: " 😀"}
"""Position in each period -> the token there. All other tokens are words that show their own position."""

_PHRASES: Final = (
    "some words of a conversation that has gone on for a while,\n",
    'some words of a "quoted" conversation that has gone on long, ',
    "some words of a conversation about C:\\dir\\ that has gone on, ",
    "some words of a conversation in a café that has gone on so, ",
    "some words of a conversation that has gone on for a while 😀 ",
)
"""Five phrases of twelve tokens, each with one of the special characters."""


def build_tokens(count: int) -> list[str]:
    """Returns the tokens of a reply. The first is a word."""
    return [_SPECIAL_TOKENS.get(position % _PERIOD, f" token{position:04}") for position in range(count)]


def is_word(token: str) -> bool:
    """Returns whether a token is one of the words, which all have the same length."""
    return token.startswith(" token")


def write_phrases(count: int) -> str:
    """Returns the text of a message. Equal counts give equal texts."""
    return "".join(islice(cycle(_PHRASES), count))
