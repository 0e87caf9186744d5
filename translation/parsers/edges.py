"""Line breaks around reasoning: they belong to the chat template's layout, not to what the model says."""


class EdgeTrimmer:
    """Strips line breaks at both ends of reasoning, and at the start of the text that follows it.

    vLLM sends `"\\n…\\n"` as reasoning and `"\\n\\n…"` as the text after it; models that write think tags do the same.
    Text with no reasoning before it is left alone, and so is every other space.
    """

    def __init__(self) -> None:
        self.is_idle = True
        """Whether text, for as long as nothing else comes, is left alone."""
        self._in_reasoning = False
        self._pending = ""

    @property
    def passes_reasoning(self) -> bool:
        """Whether reasoning that does not end with a line break passes unchanged, for as long as only such comes."""
        return self._in_reasoning and not self._pending

    def feed(self, kind: str, text: str) -> str:
        """What of the next piece of `noun` can be said now, possibly nothing."""
        if kind in ("reasoning", "summary"):
            return self._trim_reasoning(text)
        if self._in_reasoning:
            self.end_reasoning()
        if not self.is_idle:
            text = text.lstrip("\r\n")
            self.is_idle = bool(text)
        return text

    def end_reasoning(self) -> None:
        """Something other than reasoning follows: the line breaks before it are dropped."""
        self._in_reasoning = False
        self._pending = ""

    def _trim_reasoning(self, text: str) -> str:
        self.is_idle = False
        if not self._in_reasoning:
            text = text.lstrip("\r\n")
        body = text.rstrip("\r\n")
        if not body:
            self._pending += text
            return ""
        self._in_reasoning = True
        trimmed = self._pending + body
        self._pending = text[len(body) :]
        return trimmed
