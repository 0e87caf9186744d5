"""Calls as Llama 3 writes them: the whole answer is `{"name": …, "parameters": {…}}`, several with `;` between them."""

from translation.parsers.tools.leading import LeadingParser


class Llama3JsonParser(LeadingParser):
    """Objects, after a `<|python_tag|>` or not. A list is text."""

    def __init__(self) -> None:
        super().__init__(values="{", separators=";,", prefix="<|python_tag|>")
