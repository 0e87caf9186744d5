"""Thinking and answer in one text, told apart."""

import re
from functools import cache
from typing import Final, Literal, TypeAlias, TypedDict

ParsingFormat: TypeAlias = Literal["think_tags", "direct_response"]

_KNOWN_TAGS: Final = ("think", "thinking")
"""Models open one of them and close the other."""


class ParsedText(TypedDict):
    """A text in its two parts. Either may be empty."""

    response: str
    thinking: str


def parse_response(text: str, parsing_format: ParsingFormat = "think_tags", think_tag: str = "think") -> ParsedText:
    """The answer and the thinking of a raw text.

    `direct_response`: all of it is the answer. `think_tags`: what is between the tags is thinking, whether the block is
    closed, unclosed (then there is no answer yet) or lacks its opening tag, which chat templates write into the prompt.
    A block inside a block is thinking too; an opening tag that is repeated and closed once opens nothing. Space around
    either part is left out.
    """
    if parsing_format == "direct_response":
        return {"response": text, "thinking": ""}
    if parsing_format != "think_tags":
        raise ValueError(f"there is no parsing format {parsing_format!r}: write think_tags or direct_response")
    pattern = _tag_pattern(think_tag)
    tags = list(pattern.finditer(text))
    texts: dict[bool, list[str]] = {True: [], False: []}
    # Without an opening tag before it, a closing one ends thinking that began with the text.
    thinking = bool(tags) and _is_closing(tags[0])
    depth, place = int(thinking), 0
    for tag, lowest in zip(tags, _lowest_depths(tags), strict=True):
        texts[thinking].append(text[place : tag.start()])
        place = tag.end()
        if _is_closing(tag):
            depth = max(depth - 1, 0)
            thinking = depth > 0
        elif not thinking or depth + lowest <= 0:
            depth, thinking = depth + 1, True
    texts[thinking].append(text[place:])
    return {"response": "".join(texts[False]).strip(), "thinking": "".join(texts[True]).strip()}


def _is_closing(tag: re.Match[str]) -> bool:
    return tag[0].startswith("</")


def _lowest_depths(tags: list[re.Match[str]]) -> list[int]:
    """For each tag how far the tags from it on lead down at most: whether it, and what is around it, is closed."""
    found: list[int] = []
    lowest = 0
    for tag in reversed(tags):
        lowest = min(0, lowest) + (-1 if _is_closing(tag) else 1)
        found.append(lowest)
    return found[::-1]


@cache
def _tag_pattern(tag: str) -> re.Pattern[str]:
    names = "|".join(map(re.escape, dict.fromkeys((tag, *_KNOWN_TAGS))))
    return re.compile(f"</?(?:{names})>")
