"""Quotes a conversation for the demo model, which cannot write summaries."""

from collections.abc import Iterator, Sequence
from typing import Final

from providers.demo.prompts import join_item_text, list_item_texts
from translation.representation.json_types import Item
from translation.responses.compaction import SUMMARY_PROMPT

_MAX_QUOTE_CHARS: Final = 200
_MAX_QUOTES: Final = 40
_ROLES: Final = {"user": "The user wrote", "assistant": "The assistant answered"}


def asks_for_summary(items: Sequence[Item]) -> bool:
    """Whether the last item is the gateway's own request for a summary."""
    return bool(items) and join_item_text(items[-1]) == SUMMARY_PROMPT


def quote_conversation(items: Sequence[Item]) -> str:
    """Returns the beginnings of the last messages, calls and outputs, one per line."""
    quotes = list(_quotes(items[:-1]))
    omitted = [f"({len(quotes) - _MAX_QUOTES} earlier entries are left out.)"] if len(quotes) > _MAX_QUOTES else []
    return "\n".join([*omitted, *quotes[-_MAX_QUOTES:]]) or "The conversation was empty."


def quote_last_message(items: Sequence[Item]) -> str:
    """Returns the beginning of the user's last text, empty if there is none.

    It is the last part of a message, because agents such as Claude Code put reminders of their own before it.
    """
    for item in reversed(items):
        texts = [text for text in list_item_texts(item) if text.strip()] if item.get("role") == "user" else []
        if texts:
            return _shorten(texts[-1])
    return ""


def _shorten(text: str) -> str:
    text = " ".join(text.split())
    return f"{text[:_MAX_QUOTE_CHARS]}…" if len(text) > _MAX_QUOTE_CHARS else text


def _quotes(items: Sequence[Item]) -> Iterator[str]:
    for item in items:
        text = _shorten(join_item_text(item))
        if item["type"] == "message" and item.get("role") in _ROLES:
            yield f"{_ROLES[item['role']]}: {text}"
        elif item["type"] == "function_call":
            yield f"The assistant called {text}"
        elif item["type"].endswith("_output"):
            yield f"The tool returned: {text}"
