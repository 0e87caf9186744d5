"""A scripted upstream with real HTTP: for tests, and by hand with `python -m tests.upstream`."""

from .builders import (
    chat_calls,
    chat_chunk,
    chat_json,
    chat_sse,
    chat_text,
    error_reply,
    json_reply,
    replay,
    responses_sse,
    responses_text,
    sse_reply,
)
from .request import Request
from .script import Close, Drip, Exchange, Hang, Pause, Raw, Repeat, Reply, Reset, Script, Step, no_http, reset, silence
from .server import ScriptedUpstream, closed_port

__all__ = [
    "Close",
    "Drip",
    "Exchange",
    "Hang",
    "Pause",
    "Raw",
    "Repeat",
    "Reply",
    "Request",
    "Reset",
    "Script",
    "ScriptedUpstream",
    "Step",
    "chat_calls",
    "chat_chunk",
    "chat_json",
    "chat_sse",
    "chat_text",
    "closed_port",
    "error_reply",
    "json_reply",
    "no_http",
    "replay",
    "reset",
    "responses_sse",
    "responses_text",
    "silence",
    "sse_reply",
]
