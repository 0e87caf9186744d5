"""Separates thinking between tags at the beginning of a relayed answer, for servers that may leave it in the text."""

from translation.parsers.edges import EdgeTrimmer
from translation.parsers.leading_think_tags import add_opening_tag
from translation.parsers.tagged_text import TaggedTextReader
from translation.representation.json_types import Json
from translation.representation.profile import Profile


class ThoughtSplitter:
    """Separates the thinking of one choice, delta by delta or all in one message.

    It is written to `field`, where the upstream would have sent it. Text that may still become a tag is held back.
    """

    def __init__(self, profile: Profile, field: str) -> None:
        self._reader = TaggedTextReader(profile)
        self._edges = EdgeTrimmer()
        self._field = field
        self._takes_missing_tag = profile.think_open is not False

    @property
    def is_over(self) -> bool:
        """Whether all further text is unchanged."""
        return self._reader.is_over and self._edges.is_idle

    def split_whole(self, message: Json) -> bool:
        """Separates the text of a whole message, in place. Returns whether it was changed.

        The opening tag may be missing, because some chat templates write it at the end of the prompt. In a stream that
        is known too late: the text before the closing tag was sent.
        """
        content = message.get("content")
        if self._takes_missing_tag and isinstance(content, str) and not message.get(self._field):
            message["content"] = add_opening_tag(content)
        return self.split(message, is_last=True)

    def split(self, message: Json, *, is_last: bool) -> bool:
        """Separates the text of a delta or message, in place. Returns whether it was changed.

        `is_last`: no text follows.
        """
        content = message.get("content")
        text = content if isinstance(content, str) else ""
        if message.get(self._field):
            self._reader.expect_no_reasoning()
        segments = self._reader.feed(text) if text else []
        if is_last or message.get("tool_calls"):
            segments += self._reader.interrupt()
        texts = {"reasoning": "", "text": ""}
        for kind, segment in segments:
            texts[kind] += self._edges.feed(kind, segment)
        if texts["text"] == text and not texts["reasoning"]:
            return False
        message["content"] = texts["text"]
        if texts["reasoning"]:
            message[self._field] = f"{message.get(self._field) or ''}{texts['reasoning']}"
        return True


def build_splitter(profile: Profile, field: str) -> ThoughtSplitter | None:
    """Returns the splitter of one choice; None if the profile leaves the text of relayed answers unchanged."""
    return ThoughtSplitter(profile, field) if profile.parsing_format == "leading_think_tags" else None
