"""Reads reasoning whose opening tag is in the prompt, up to its closing tag."""

import re
from typing import Final

CLOSING_TAGS: Final = ("</think>", "</thinking>")
"""Either one ends the reasoning, whichever tag opened it, because models confuse them."""

_TAG_PATTERN: Final = re.compile(r"</?think(?:ing)?>", re.IGNORECASE | re.ASCII)
_TAGS: Final = ("<think>", "<thinking>", *CLOSING_TAGS)
_OPEN_TAG_AT_END: Final = re.compile(r"<(think|thinking)>\s*\Z")


class ThoughtReader:
    """Reads the reasoning at the start of a text.

    A tag may be cut anywhere: only text that could still become a tag is held back. An opening tag inside the reasoning
    is removed, because models repeat the one in the prompt.
    """

    def __init__(self) -> None:
        self.closed = False
        """Whether the closing tag was read."""
        self.remainder = ""
        """The text after the closing tag, once `closed`."""
        self._pending = ""

    def feed(self, text: str) -> str:
        """Adds text. Returns the reasoning that it completes; text after the closing tag goes to `remainder`."""
        if self.closed:
            self.remainder += text
            return ""
        text = self._pending + text
        texts = []
        at = 0
        while (tag := _TAG_PATTERN.search(text, at)) is not None:
            texts.append(text[at : tag.start()])
            at = tag.end()
            if tag[0].lower() in CLOSING_TAGS:
                self.closed, self._pending, self.remainder = True, "", text[at:]
                return "".join(texts)
        text = text[at:]
        start = text.rfind("<")
        keep = len(text) if start == -1 or not _may_become_tag(text[start:]) else start
        self._pending = text[keep:]
        texts.append(text[:keep])
        return "".join(texts)

    def end_unclosed(self, tag: str) -> tuple[str, str]:
        """Ends a text without a closing tag. Returns the last reasoning, and the text that closes it.

        If the text that was held back begins a closing tag (`</`), it is no reasoning, and the second value is only the
        rest of that tag. Else the second value is the whole `tag`.
        """
        pending, self._pending = self._pending, ""
        begun_tags = (
            [name for name in (tag, *CLOSING_TAGS) if name.startswith(pending.lower())]
            if pending.startswith("</")
            else []
        )
        return ("", begun_tags[0][len(pending) :]) if begun_tags else (pending, tag)


def _may_become_tag(text: str) -> bool:
    return any(tag.startswith(text.lower()) for tag in _TAGS)


def unclosed_tag_name(tail: str) -> str | None:
    """Returns the name of the tag that is open at the end of a prompt: `think`, `thinking` or None."""
    match = _OPEN_TAG_AT_END.search(tail)
    return match[1] if match else None


def text_after_first_tag(text: str) -> str:
    """Returns the text after its first closing tag, or the whole text if it has none."""
    return text[min((text.find(tag) + len(tag) for tag in CLOSING_TAGS if tag in text), default=0) :]


def text_after_last_tag(text: str) -> str:
    """Returns the text after its last closing tag, or the whole text if it has none."""
    return text[max((text.rfind(tag) + len(tag) for tag in CLOSING_TAGS if tag in text), default=0) :]
