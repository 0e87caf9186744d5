"""Layout around tool calls: line breaks that belong to the chat template, not to what the model says."""

from collections.abc import Iterable

from translation.parsers.tools.parser_output import ParserOutput, PlainText


class BlankFilter:
    """Takes out texts of nothing but spaces before, between and after calls.

    Spaces at the start of a text go out with what follows them, all others as they come.
    """

    def __init__(self) -> None:
        self._spaces: list[str] = []
        self._in_text = False

    def filter_blanks(self, output: Iterable[ParserOutput]) -> list[ParserOutput]:
        """What is left of this, possibly with spaces that were held back before."""
        left: list[ParserOutput] = []
        for each in output:
            if not isinstance(each, PlainText):
                self._spaces.clear()
                self._in_text = False
                left.append(each)
            elif not each.text:
                continue
            elif self._in_text:
                left.append(each)
            elif each.text.strip():
                left.append(PlainText("".join(self._spaces) + each.text) if self._spaces else each)
                self._spaces.clear()
                self._in_text = True
            else:
                self._spaces.append(each.text)
        return left
