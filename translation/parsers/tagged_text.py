"""Separates reasoning from the text of one reply, as its profile says."""

from typing import TypeAlias

from translation.parsers.leading_think_tags import LeadingThinkParser, build_think_parser
from translation.parsers.think_tags import ThinkParser
from translation.representation.json_types import Json
from translation.representation.profile import Profile

TaggedRun: TypeAlias = tuple[str, str, list[Json] | None]
"""(kind, text, log probabilities); the kind is `text` or `reasoning`."""


class TaggedTextReader:
    """Splits text into runs `(kind, text, logprobs)`, with the parser of a profile that does not leave text unchanged.

    Log probabilities of text that is held back are returned with that text.
    """

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._parser: ThinkParser | LeadingThinkParser | None = None
        self._has_separate_reasoning = False
        self._logprobs: list[Json] = []

    @property
    def is_over(self) -> bool:
        """Whether all further text is returned as it is."""
        return isinstance(self._parser, LeadingThinkParser) and self._parser.is_over

    def feed(self, text: str, logprobs: list[Json] | None = None) -> list[TaggedRun]:
        """Adds text. Returns the runs that it completes."""
        if self._parser is None:
            self._parser = build_think_parser(self._profile, self._has_separate_reasoning)
        if logprobs:
            self._logprobs += logprobs
        return self._attach_logprobs(self._parser.feed(text))

    def release(self) -> list[TaggedRun]:
        """Returns text that waits for the first tag: what follows in the reply shows that it is the answer."""
        return self._attach_logprobs(self._parser.release()) if isinstance(self._parser, ThinkParser) else []

    def expect_no_reasoning(self) -> list[TaggedRun]:
        """Does the same for a reply whose reasoning is separate: its server has removed the template's tag too."""
        self._has_separate_reasoning = True
        return self.release()

    def finish(self) -> list[TaggedRun]:
        """Ends the text. Returns what was held back."""
        return [] if self._parser is None else self._attach_logprobs(self._parser.finish())

    def _attach_logprobs(self, runs: list[tuple[str, str]]) -> list[TaggedRun]:
        if not runs:
            return []
        logprobs, self._logprobs = self._logprobs or None, []
        return [(kind, text, logprobs) for kind, text in runs]
