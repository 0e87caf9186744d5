"""An MCP server that answers what a test scripts, byte for byte: for what a real server does not do."""

from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeAlias

from tests.upstream import Hang, Reply, ScriptedUpstream
from tests.upstream.builders import SSE, Json, dump, json_reply
from tests.upstream.request import Request
from tests.upstream.script import Exchange, Script

Era: TypeAlias = Literal["legacy", "modern"]

LOOK_UP: Json = {"name": "look_up", "description": "Looks up.", "inputSchema": {"type": "object", "properties": {}}}
_COMPLETE: Json = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
_SESSION: Mapping[str, str] = {"mcp-session-id": "session-1"}


def text_result(text: str, **more: Any) -> Json:
    return {"content": [{"type": "text", "text": text}], "resultType": "complete", **more}


def list_result(*tools: Json, **more: Any) -> Json:
    return {"tools": list(tools), **_COMPLETE, **more}


def answer(result: Any, headers: Mapping[str, str] | None = None) -> Script:
    """The result as a JSON body."""

    async def play(exchange: Exchange) -> None:
        body = {"jsonrpc": "2.0", "id": exchange.request.json["id"], "result": result}
        await json_reply(body, headers=dict(headers or {}))(exchange)

    return play


def rpc_error(code: int, message: str, status: int = 200) -> Script:
    """A JSON-RPC error."""

    async def play(exchange: Exchange) -> None:
        body = {"jsonrpc": "2.0", "id": exchange.request.json["id"], "error": {"code": code, "message": message}}
        await json_reply(body, status)(exchange)

    return play


def sse_answer(result: Any, *before: Any) -> Script:
    """Returns a stream of messages, and the result at its end."""

    async def play(exchange: Exchange) -> None:
        messages = [*before, {"jsonrpc": "2.0", "id": exchange.request.json["id"], "result": result}]
        await Reply(headers=SSE, body=[sse_frame(message) for message in messages])(exchange)

    return play


def sse_frame(message: Any) -> bytes:
    return b"event: message\ndata: " + dump(message) + b"\n\n"


_CHANGED: Json = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


async def change_stream(exchange: Exchange) -> None:
    """The stream on which a legacy server talks unasked: it reports a change of its tools, and stays open."""
    await Reply(headers=SSE, body=[sse_frame(_CHANGED), Hang()])(exchange)


async def change_subscription(exchange: Exchange) -> None:
    """A subscription at a modern server, which reports a change of the tools, and stays open."""
    meta = {"_meta": {"io.modelcontextprotocol/subscriptionId": exchange.request.json["id"]}}
    honored = {"notifications": {"toolsListChanged": True}, **meta}
    acknowledged = {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": honored}
    frames = [sse_frame(acknowledged), sse_frame({**_CHANGED, "params": meta})]
    await Reply(headers=SSE, body=[*frames, Hang()])(exchange)


class ScriptedMcp:
    """A scripted MCP server. `calls` are the received tool calls; `received(method)` has all messages of a method."""

    def __init__(
        self, upstream: ScriptedUpstream, scripts: Mapping[str, Sequence[Script]], era: Era, get: Script | None
    ) -> None:
        self._get = get
        reports_changes = get is not None or "subscriptions/listen" in scripts
        self._capabilities = {"tools": {"listChanged": True} if reports_changes else {}}
        self.upstream = upstream
        self.url = f"{upstream.url}/mcp"
        self._scripts = {method: deque(each) for method, each in scripts.items()}
        self._era = era

    def received(self, method: str) -> list[Request]:
        posts = [request for request in self.upstream.requests if request.method == "POST"]
        return [request for request in posts if request.json.get("method") == method]

    def received_replies(self, request_id: str) -> list[Json]:
        """Returns the gateway's replies to requests of the server."""
        posts = [request.json for request in self.upstream.requests if request.method == "POST"]
        return [post for post in posts if post.get("id") == request_id and "method" not in post]

    @property
    def calls(self) -> list[Request]:
        return self.received("tools/call")

    async def play(self, exchange: Exchange) -> None:
        await self._choose(exchange.request)(exchange)

    def _choose(self, request: Request) -> Script:
        if request.method == "GET" and self._get is not None:
            return self._get
        if request.method != "POST":
            return json_reply({}, 200 if request.method == "DELETE" else 405)
        message = request.json
        method = message.get("method", "reply")
        if scripts := self._scripts.get(method):
            return scripts.popleft() if len(scripts) > 1 else scripts[0]
        if method == "server/discover" and self._era == "modern":
            return answer({"supportedVersions": ["2026-07-28"], "capabilities": self._capabilities, **_COMPLETE})
        if method == "initialize":
            version = message["params"]["protocolVersion"]
            info = {"name": "scripted", "version": "1"}
            return answer(
                {"protocolVersion": version, "capabilities": self._capabilities, "serverInfo": info}, _SESSION
            )
        if method == "tools/list":
            return answer(list_result(LOOK_UP))
        if "id" not in message or "method" not in message:
            return Reply(202, framing="length")
        return rpc_error(-32601, "Method not found", 404)


@asynccontextmanager
async def scripted_mcp(
    call: Script | Sequence[Script] | None = None,
    *,
    era: Era = "modern",
    methods: Mapping[str, Script | Sequence[Script]] | None = None,
    get: Script | None = None,
) -> AsyncIterator[ScriptedMcp]:
    """Serves the tool `look_up`. `call` answers its calls, in turn and then for ever with the last one; `methods` do so
    for others, `get` the request for the stream on which the server talks unasked. A legacy server has sessions, and
    only knows `initialize`."""
    scripts = dict(methods or {}) | ({} if call is None else {"tools/call": call})
    listed = {name: [each] if callable(each) else list(each) for name, each in scripts.items()}
    async with ScriptedUpstream() as upstream:
        server = ScriptedMcp(upstream, listed, era, get)
        upstream.on("/mcp", server.play)
        yield server
