"""`POST /generate`. The clients use its form of replies for both APIs."""

from responses_gateway_clients.contract import GatewayRequest, ReplyReader, drop_none
from responses_gateway_clients.http import Json, JsonFrame, gateway_error_of


class GenerateApi:
    """The API `POST /generate`: see docs/generate.md."""

    path = "/generate"

    def build_body(self, request: GatewayRequest, *, stream: bool) -> Json:
        body = drop_none(
            {
                "messages": list(request.messages),
                "model": request.model,
                "temperature": request.temperature,
                "stop": list(request.stop) if request.stop else None,
                "two_pass": request.two_pass,
                "think_tag": request.think_tag,
                "tool_parser": request.tool_parser,
                "max_thinking_tokens": request.max_thinking_tokens,
                "max_response_tokens": request.max_response_tokens,
                "tools": list(request.tools) or None,
                "tool_choice": request.tool_choice,
                "response_format": request.response_format,
            }
        )
        return {**body, "stream": stream, **request.extra_fields}

    def parse_reply(self, body: Json) -> Json:
        return body

    def create_reader(self) -> ReplyReader:
        return _GenerateReader()


class _GenerateReader:
    def __init__(self) -> None:
        self.reply: Json | None = None

    def feed(self, frame: JsonFrame) -> list[Json]:
        if frame.event == "error":
            raise gateway_error_of(frame.payload.get("error") or {})
        if frame.event == "done":
            self.reply = frame.payload
            return []
        return [frame.payload]
