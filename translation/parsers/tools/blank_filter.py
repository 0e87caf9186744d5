"""Removes whitespace around tool calls, because it is layout of the chat template."""

from collections.abc import Iterable

from translation.parsers.tools.parser_output import ParserOutput, PlainText


class BlankFilter:
    """Removes text of whitespace only before, between and after calls.

    Whitespace at the start of other text is held back and sent with the first text that follows it. All other
    whitespace is sent at once.
    """

    def __init__(self) -> None:
        self._spaces: list[str] = []
        self._in_text = False

    def filter_blanks(self, output: Iterable[ParserOutput]) -> list[ParserOutput]:
        """Filters the next outputs. Returns those to send, possibly with whitespace that was held back before."""
        filtered: list[ParserOutput] = []
        for item in output:
            if not isinstance(item, PlainText):
                self._spaces.clear()
                self._in_text = False
                filtered.append(item)
            elif not item.text:
                continue
            elif self._in_text:
                filtered.append(item)
            elif item.text.strip():
                filtered.append(PlainText("".join(self._spaces) + item.text) if self._spaces else item)
                self._spaces.clear()
                self._in_text = True
            else:
                self._spaces.append(item.text)
        return filtered
