"""Line breaks around reasoning: they belong to the chat template's layout, not to what the model says."""


class EdgeTrimmer:
    """Strips line breaks at both ends of reasoning, and at the start of the text that follows it.

    vLLM sends `"\\n…\\n"` as reasoning and `"\\n\\n…"` as the text after it; models that write think tags do the same.
    Text with no reasoning before it is left alone, and so is every other space.
    """

    def __init__(self) -> None:
        self.settled = True
        """Whether text, for as long as nothing else comes, is left alone."""
        self._inside = False
        self._held = ""

    def feed(self, noun: str, text: str) -> str:
        """What of the next piece of `noun` can be said now, possibly nothing."""
        if noun in ("reasoning", "summary"):
            return self._reasoning(text)
        if self._inside:
            self.cut()
        if not self.settled:
            text = text.lstrip("\r\n")
            self.settled = bool(text)
        return text

    def cut(self) -> None:
        """Something other than reasoning follows: the line breaks before it are dropped."""
        self._inside = False
        self._held = ""

    def _reasoning(self, text: str) -> str:
        self.settled = False
        if not self._inside:
            text = text.lstrip("\r\n")
        body = text.rstrip("\r\n")
        if not body:
            self._held += text
            return ""
        self._inside = True
        said = self._held + body
        self._held = text[len(body) :]
        return said
