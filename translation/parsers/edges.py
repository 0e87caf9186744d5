"""Strips line breaks around reasoning, because they are layout of the chat template."""


class EdgeTrimmer:
    """Strips line breaks at both ends of reasoning, and at the start of the text that follows it.

    vLLM sends `"\\n…\\n"` as reasoning and `"\\n\\n…"` as the text after it; models that write think tags do the same.
    Text without reasoning before it is not changed, and neither is any other whitespace.
    """

    is_idle = True
    """Whether text passes unchanged: until reasoning comes, and again after the first text that follows it."""
    pending = ""
    """Line breaks of reasoning that are held back: they are sent before further reasoning, or dropped."""
    _in_reasoning = False

    def feed(self, kind: str, text: str) -> str:
        """Adds text of one kind of block. Returns what can be sent now, possibly nothing.

        Any kind but `reasoning` and `summary` counts as text.
        """
        if kind in ("reasoning", "summary"):
            return self.trim_reasoning(text)
        if self._in_reasoning:
            self.end_reasoning()
        if not self.is_idle:
            text = text.lstrip("\r\n")
            self.is_idle = bool(text)
        return text

    def end_reasoning(self) -> None:
        """Ends the reasoning, and drops the line breaks at its end."""
        self._in_reasoning = False
        self.pending = ""

    def trim_reasoning(self, text: str) -> str:
        """Adds a text of reasoning. Returns what can be sent now, possibly nothing."""
        self.is_idle = False
        if not self._in_reasoning:
            text = text.lstrip("\r\n")
        body = text.rstrip("\r\n")
        if not body:
            self.pending += text
            return ""
        self._in_reasoning = True
        trimmed = self.pending + body
        self.pending = text[len(body) :]
        return trimmed
