"""Separates thinking and answer in one text."""

import re
from functools import cache
from typing import Final, Literal, TypeAlias, TypedDict

ParsingFormat: TypeAlias = Literal["think_tags", "direct_response"]

_KNOWN_TAGS: Final = ("think", "thinking")
"""Tags that are always recognized, because models open one of them and close the other."""


class ParsedText(TypedDict):
    """The answer (`response`) and the thinking of a text. Either may be empty."""

    response: str
    thinking: str


def parse_response(text: str, parsing_format: ParsingFormat = "think_tags", think_tag: str = "think") -> ParsedText:
    """Returns the answer and the thinking of a raw text.

    `direct_response`: the whole text is the answer. `think_tags`: the text between the tags is thinking. The block may
    be closed, unclosed (then there is no answer yet), or without its opening tag, which chat templates write into the
    prompt. A block inside a block is thinking too. An opening tag that is repeated, but closed only once, opens no
    second block. Space around both parts is removed.

    Raises ValueError for an unknown `parsing_format`.
    """
    if parsing_format == "direct_response":
        return {"response": text, "thinking": ""}
    if parsing_format != "think_tags":
        raise ValueError(f"unknown parsing_format {parsing_format!r}: use think_tags or direct_response")
    pattern = _tag_pattern(think_tag)
    tags = list(pattern.finditer(text))
    texts: dict[bool, list[str]] = {True: [], False: []}
    # A closing tag without an opening tag before it ends thinking that began with the text.
    is_thinking = bool(tags) and _is_closing(tags[0])
    depth, start = int(is_thinking), 0
    for tag, lowest in zip(tags, _lowest_depths(tags), strict=True):
        texts[is_thinking].append(text[start : tag.start()])
        start = tag.end()
        if _is_closing(tag):
            depth = max(depth - 1, 0)
            is_thinking = depth > 0
        elif not is_thinking or depth + lowest <= 0:
            depth, is_thinking = depth + 1, True
    texts[is_thinking].append(text[start:])
    return {"response": "".join(texts[False]).strip(), "thinking": "".join(texts[True]).strip()}


def _is_closing(tag: re.Match[str]) -> bool:
    return tag[0].startswith("</")


def _lowest_depths(tags: list[re.Match[str]]) -> list[int]:
    """Returns for each tag the lowest depth that this and the following tags reach, relative to the depth before the
    tag. It shows whether the tag's block, and the block around it, are closed."""
    depths: list[int] = []
    lowest = 0
    for tag in reversed(tags):
        lowest = min(0, lowest) + (-1 if _is_closing(tag) else 1)
        depths.append(lowest)
    return depths[::-1]


@cache
def _tag_pattern(tag: str) -> re.Pattern[str]:
    names = "|".join(map(re.escape, dict.fromkeys((tag, *_KNOWN_TAGS))))
    return re.compile(f"</?(?:{names})>", re.IGNORECASE | re.ASCII)
