"""One thought whose opening tag is in the prompt, up to the tag that closes it."""

import re
from typing import Final

CLOSING_TAGS: Final = ("</think>", "</thinking>")
"""Either ends a thought, whichever opened it: models mix them up."""

_TAG_PATTERN: Final = re.compile(r"</?think(?:ing)?>")
_TAGS: Final = ("<think>", "<thinking>", *CLOSING_TAGS)
_OPEN_TAG_AT_END: Final = re.compile(r"<(think|thinking)>\s*\Z")


class ThoughtReader:
    """Text in, the thought out. A tag may be cut anywhere: what could still become one is held back.

    An opening tag inside is taken out, because models repeat the one in the prompt.
    """

    def __init__(self) -> None:
        self.closed = False
        self.remainder = ""
        """What followed the closing tag, once `closed`."""
        self._pending = ""

    def feed(self, text: str) -> str:
        """What of the thought can be said now. Nothing is read after the closing tag."""
        if self.closed:
            self.remainder += text
            return ""
        text = self._pending + text
        texts = []
        while (tag := _TAG_PATTERN.search(text)) is not None:
            texts.append(text[: tag.start()])
            text = text[tag.end() :]
            if tag[0] in CLOSING_TAGS:
                self.closed, self._pending, self.remainder = True, "", text
                return "".join(texts)
        start = text.rfind("<")
        keep = len(text) if start == -1 or not any(tag.startswith(text[start:]) for tag in _TAGS) else start
        self._pending = text[keep:]
        texts.append(text[:keep])
        return "".join(texts)

    def end_unclosed(self, tag: str) -> tuple[str, str]:
        """The text ends here without its closing tag: (what more of the thought there is to say, what the closing tag
        `tag` still lacks). More than `</` that was held back is the beginning of a closing tag, and no thought."""
        held, self._pending = self._pending, ""
        begun = [each for each in (tag, *CLOSING_TAGS) if each.startswith(held)] if held.startswith("</") else []
        return ("", begun[0][len(held) :]) if begun else (held, tag)


def unclosed_tag_name(tail: str) -> str | None:
    """The name of the tag that the end of a prompt leaves open: `think`, `thinking` or none."""
    found = _OPEN_TAG_AT_END.search(tail)
    return found[1] if found else None


def text_after_first_tag(text: str) -> str:
    """What follows the first closing tag of a text; all of it where there is none."""
    return text[min((text.find(tag) + len(tag) for tag in CLOSING_TAGS if tag in text), default=0) :]


def text_after_last_tag(text: str) -> str:
    """What follows the last closing tag of a text; all of it where there is none."""
    return text[max((text.rfind(tag) + len(tag) for tag in CLOSING_TAGS if tag in text), default=0) :]
