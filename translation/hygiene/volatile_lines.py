"""Moves volatile lines of a system prompt to the end of a prompt, so that an upstream can reuse its cached prefix, and
removes those that no model needs.

A prefix cache is useful up to the first token that differs from the prompt before. Because of a line at the beginning
that changes with each request, such as a date or a client's accounting data, an upstream processes the whole prompt
again.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import translate
from functools import lru_cache
from typing import Any, Final

from translation.representation.items import CALL_OUTPUT_TYPES
from translation.representation.json_types import Json
from translation.representation.turn import Turn

_SYSTEM_ROLES: Final = ("system", "developer")

_WILDCARDS: Final = re.compile(r"[*?\[]")

_TEXT_TYPES: Final = ("input_text", "text")


def remove_lines_of_turn(turn: Turn, patterns: Sequence[str]) -> Turn:
    """Returns the turn without the lines of its instructions and leading system messages that match `patterns`.

    Returns `turn` itself if there is no such line, or nothing else.
    """
    first = turn.items[0] if turn.items else {}
    if not turn.instructions and first.get("role") not in _SYSTEM_ROLES:
        return turn  # there is no place for them, as in most requests without a system message
    lines: list[str] = []
    instructions = turn.instructions and _split(turn.instructions, tuple(patterns), lines)
    leading, count = _split_leading(turn.items, tuple(patterns), lines)
    if not lines or not (instructions or leading or len(turn.items) > count):
        return turn
    items = [*leading, *turn.items[count:]]
    return replace(turn, instructions=instructions or None, items=items)


def remove_lines(messages: Sequence[Json], patterns: Sequence[str]) -> Sequence[Json]:
    """Returns the messages of a chat request in the same way. Returns `messages` itself if nothing is removed."""
    if not messages or messages[0].get("role") not in _SYSTEM_ROLES:
        return messages
    lines: list[str] = []
    leading, count = _split_leading(messages, tuple(patterns), lines)
    return [*leading, *messages[count:]] if lines and (leading or len(messages) > count) else messages


def remove_lines_of_system(system: str | list[Json], patterns: Sequence[str]) -> str | list[Json]:
    """Returns the `system` of a Messages request in the same way: empty if it had nothing else, and the same object if
    nothing is removed."""
    rest: str | list[Json] = _split_content(system, tuple(patterns), [])
    return rest


def move_volatile_lines_of_turn(turn: Turn, patterns: Sequence[str]) -> Turn:
    """Returns the turn with the volatile lines of its instructions and leading system messages in its newest message.

    `patterns` match whole lines, with `*` and `?`. Returns `turn` itself if there is no such line, or no message.
    """
    first = turn.items[0] if turn.items else {}
    if not turn.instructions and first.get("role") not in _SYSTEM_ROLES:
        return turn  # there is no place for them, as in most requests without a system message
    lines: list[str] = []
    instructions = turn.instructions and _split(turn.instructions, tuple(patterns), lines)
    items = _move(turn.items, tuple(patterns), lines)
    return turn if items is None else replace(turn, instructions=instructions or None, items=items)


def move_volatile_lines(messages: Sequence[Json], patterns: Sequence[str]) -> Sequence[Json]:
    """Returns the messages of a chat request in the same way. Returns `messages` itself if nothing is moved."""
    moved = _move(messages, tuple(patterns), [])
    return messages if moved is None else moved


def move_volatile_lines_of_system(
    system: str | list[Json], messages: Sequence[Json], patterns: Sequence[str]
) -> tuple[str | list[Json], Sequence[Json]]:
    """Returns the `system` and the messages of a Messages request in the same way, and the same objects if nothing is
    moved. A `system` that had nothing else is empty."""
    lines: list[str] = []
    rest = _split_content(system, tuple(patterns), lines)
    moved = _move(messages, tuple(patterns), lines)
    return (system, messages) if moved is None else (rest, moved)


def _move(entries: Sequence[Json], patterns: tuple[str, ...], lines: list[str]) -> list[Json] | None:
    """Returns items or chat messages with volatile lines moved to the newest entry that is not from the assistant.

    These are `lines` and the lines of leading system messages, which are added to `lines`. Returns None if there are no
    lines or no such entry.
    """
    leading, count = _split_leading(entries, patterns, lines)
    if not lines:
        return None
    for index in range(len(entries) - 1, count - 1, -1):
        if (extended := _append(entries[index], "\n".join(lines))) is not None:
            return [*leading, *entries[count:index], extended, *entries[index + 1 :]]
    return None


def _split_leading(entries: Sequence[Json], patterns: tuple[str, ...], lines: list[str]) -> tuple[list[Json], int]:
    """Returns the leading system messages without volatile lines, which are added to `lines`, and how many entries
    they were before. A message that had nothing else is left out."""
    leading: list[Json] = []
    count = 0
    for entry in entries:
        if entry.get("role") not in _SYSTEM_ROLES:
            break
        count += 1
        content = _split_content(entry.get("content"), patterns, lines)
        if content:
            leading.append(entry if content is entry.get("content") else {**entry, "content": content})
    return leading, count


def _split_content(content: Any, patterns: tuple[str, ...], lines: list[str]) -> Any:
    """Returns the content of a system message without its volatile lines, which are added to `lines`. The same object
    if it has none; empty if it has nothing else."""
    if isinstance(content, str):
        return _split(content, patterns, lines)
    if not isinstance(content, list):
        return content
    count = len(lines)
    parts = [
        {**part, "text": _split(part["text"], patterns, lines)} if part.get("type") in _TEXT_TYPES else part
        for part in content
    ]
    return content if len(lines) == count else [part for part in parts if part.get("text") != ""]


def _append(entry: Json, text: str) -> Json | None:
    """Returns the entry with text at its end, marked as not being the user's or the tool's; None if it has no place."""
    role = entry.get("role")
    key = "output" if entry.get("type") in CALL_OUTPUT_TYPES else "content"
    content = entry.get(key)
    if role == "assistant" or not isinstance(content, str | list):
        return None
    if role not in _SYSTEM_ROLES:
        text = f"<system>\n{text}\n</system>"
    if isinstance(content, str):
        return {**entry, key: f"{content}\n\n{text}" if content else text}
    last = content[-1] if content else {}
    if last.get("type") in _TEXT_TYPES:
        return {**entry, key: [*content[:-1], {**last, "text": f"{last['text']}\n\n{text}"}]}
    return {**entry, key: [*content, {"type": "input_text" if "type" in entry else "text", "text": text}]}


def _split(text: str, patterns: tuple[str, ...], lines: list[str]) -> str:
    """Returns the text without its volatile lines, which are added to `lines`; the same object if it has none.

    Blank lines around a line are left as one separator. Texts are first searched for the literal prefixes of the
    patterns only.
    """
    heads, pattern = _compile(patterns)
    if not any(head in text for head in heads):
        return text
    rest = text.split("\n")
    indexes = [
        index for index, line in enumerate(rest) if line.lstrip().startswith(heads) and pattern.match(line.strip())
    ]
    lines += [rest[index].strip() for index in indexes]
    for index in reversed(indexes):
        del rest[index]
        while index < len(rest) and not rest[index].strip() and (index == 0 or not rest[index - 1].strip()):
            del rest[index]
        if index == len(rest):
            while rest and not rest[-1].strip():
                rest.pop()
    return "\n".join(rest) if indexes else text


@lru_cache
def _compile(patterns: tuple[str, ...]) -> tuple[tuple[str, ...], re.Pattern[str]]:
    """Returns the literal prefixes of the patterns, up to their first wildcard, and an expression that matches any
    pattern."""
    heads = tuple(_WILDCARDS.split(pattern, maxsplit=1)[0] for pattern in patterns)
    return heads, re.compile("|".join(map(translate, patterns)))
