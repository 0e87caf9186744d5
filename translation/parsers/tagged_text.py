"""Separates reasoning from the text of one reply, according to its profile."""

from translation.parsers.leading_think_tags import LeadingThinkParser
from translation.parsers.think_tags import ThinkParser
from translation.representation.profile import Profile


class TaggedTextReader:
    """Splits text into segments `(kind, text)`, with the parser of a profile that does not leave text unchanged.

    The kind is `text` or `reasoning`.
    """

    _parser: ThinkParser | LeadingThinkParser | None = None
    _has_separate_reasoning = False

    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    @property
    def is_over(self) -> bool:
        """Whether all further text is returned unchanged."""
        return isinstance(self._parser, LeadingThinkParser) and self._parser.is_over

    def feed(self, text: str) -> list[tuple[str, str]]:
        """Adds text. Returns the segments that it completes."""
        if self._parser is None:
            self._parser = _build_think_parser(self._profile, self._has_separate_reasoning)
        return self._parser.feed(text)

    def expect_no_reasoning(self) -> list[tuple[str, str]]:
        """Treats further text as the answer too, because the server sends reasoning separately and has removed the
        template's tag. Returns the text that was held back until the first tag."""
        self._has_separate_reasoning = True
        return self._parser.release() if isinstance(self._parser, ThinkParser) else []

    def interrupt(self) -> list[tuple[str, str]]:
        """Returns the text that was held back, because the text ends, or other output follows it: no tag goes on after
        that. More text may follow."""
        return [] if self._parser is None else self._parser.finish()


def _build_think_parser(profile: Profile, has_reasoning: bool) -> ThinkParser | LeadingThinkParser:
    """Returns the parser for a profile that does not leave text unchanged. `has_reasoning`: the upstream has sent
    reasoning beside the text, so it has also removed the opening tag of the chat template."""
    think_open = False if has_reasoning else profile.think_open
    if profile.parsing_format == "leading_think_tags" and not think_open:
        return LeadingThinkParser()
    return ThinkParser(open_at_start=think_open)
