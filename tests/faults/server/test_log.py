"""The log has the reason of each failed request, including streams that began with status 200."""

from pathlib import Path

from tests.faults.client_view import CHAT, RESPONSES, ask
from tests.faults.config import config
from tests.serving import command
from tests.upstream import Reply, Reset, ScriptedUpstream, chat_text, no_http, reset
from tests.upstream.builders import SSE
from tests.upstream.faults import CHAT as CHAT_ANSWER


async def test_the_log_line_of_a_failed_request_has_the_reason(tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream:
        with command(config(upstream.url, "chat"), tmp_path, forked=True) as gateway:
            upstream.script(reset)
            await ask(gateway.v1, RESPONSES, stream=False)
            upstream.script(Reply(headers=SSE, body=[CHAT_ANSWER.opening, Reset()]))
            await ask(gateway.v1, CHAT, stream=True)
            upstream.script(Reply(headers=SSE, body=CHAT_ANSWER.opening + CHAT_ANSWER.error))
            await ask(gateway.v1, CHAT, stream=True)
            await ask(gateway.v1, RESPONSES, stream=True)
            upstream.script(no_http)
            await ask(gateway.v1, CHAT, stream=True)
            upstream.script(chat_text("hi"))
            await ask(gateway.v1, CHAT, stream=True, temperature="a secret")
            await ask(gateway.v1, CHAT, stream=True)
        lines = gateway.read_log_lines()
    assert "secret" not in gateway.read_log()
    assert [(line["status"], line.get("error"), "cause" in line) for line in lines if line["message"] == "request"] == [
        (502, "upstream_unreachable", True),
        (200, "upstream_disconnected", True),
        (200, "rate_limit_exceeded", False),
        (200, "rate_limit_exceeded", False),
        (502, "upstream_garbled", True),
        (400, "invalid_type", False),
        (200, None, False),
    ]


async def test_the_log_line_of_a_stream_reports_missing_log_probabilities(tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_text("hi"))
        with command(config(upstream.url, "chat"), tmp_path, forked=True) as gateway:
            await ask(gateway.v1, RESPONSES, stream=True, include=["message.output_text.logprobs"])
            await ask(gateway.v1, RESPONSES, stream=True)
        lines = gateway.read_log_lines()
    assert [line.get("unreported") for line in lines if line["message"] == "request"] == ["include", None]
