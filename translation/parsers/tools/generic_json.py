"""Calls of models that are told to answer in JSON: the whole answer is a call, or a list of calls."""

from translation.parsers.tools.leading import LeadingParser


class GenericJsonParser(LeadingParser):
    """An object or a list of objects, in a code fence or not."""

    def __init__(self) -> None:
        super().__init__(values="{[")
