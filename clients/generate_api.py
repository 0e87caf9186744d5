"""`POST /generate`, the contract that the others are read in."""

from clients.contract import Ask, Reader, given
from clients.http import Frame, Json, failure_of


class GenerateApi:
    """See docs/generate.md."""

    path = "/generate"

    def body(self, ask: Ask, *, stream: bool) -> Json:
        body = given(
            {
                "messages": list(ask.messages),
                "model": ask.model,
                "temperature": ask.temperature,
                "stop": list(ask.stop) if ask.stop else None,
                "two_pass": ask.two_pass,
                "think_tag": ask.think_tag,
                "tool_parser": ask.tool_parser,
                "max_thinking_tokens": ask.max_thinking_tokens,
                "max_response_tokens": ask.max_response_tokens,
                "tools": list(ask.tools) or None,
                "tool_choice": ask.tool_choice,
                "response_format": ask.response_format,
            }
        )
        return {**body, "stream": stream, **ask.more}

    def reply(self, answer: Json) -> Json:
        return answer

    def reader(self) -> Reader:
        return _Frames()


class _Frames:
    def __init__(self) -> None:
        self.reply: Json | None = None

    def feed(self, frame: Frame) -> list[Json]:
        if frame.event == "error":
            raise failure_of(frame.payload.get("error") or {})
        if frame.event == "done":
            self.reply = frame.payload
            return []
        return [frame.payload]
