"""An MCP server whose tool requests a number of people from the user."""

from typing import Any

from tests.integration.mcp.approval_gateway import Approving, answer
from tests.mcp_script import ScriptedMcp
from tests.upstream.builders import Json, chat_calls, chat_text
from tests.upstream.script import Exchange

FORM: Json = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


async def book(exchange: Exchange) -> None:
    """Calls `book` after a user message, and then replies with its output."""
    last = exchange.request.json["messages"][-1]
    calls = chat_calls(("calc_book", '{"city": "Rome"}'))
    await (calls if last["role"] == "user" else chat_text(f"Read: {last['content']}"))(exchange)


async def look_up(exchange: Exchange) -> None:
    last = exchange.request.json["messages"][-1]
    calls = chat_calls(("lookup_look_up", "{}"))
    await (calls if last["role"] == "user" else chat_text(f"Read: {last['content']}"))(exchange)


def asking(*keys: str, state: str | None = "state-1", **forms: Json) -> Json:
    """Returns the result of a call that requests forms of these keys, and the other forms unchanged."""
    requests = {key: {"mode": "form", "message": f"The {key}?", "requestedSchema": FORM} for key in keys} | forms
    wire = {key: {"method": "elicitation/create", "params": params} for key, params in requests.items()}
    return {"resultType": "input_required", "inputRequests": wire, **({} if state is None else {"requestState": state})}


def given(request: Json, **content: Any) -> Json:
    return answer(request, content=content)


def call_of(response: Json) -> Json:
    (item,) = [item for item in response["output"] if item["type"] == "mcp_call"]
    return dict(item)


def params_of(mcp: ScriptedMcp) -> Json:
    """The parameters of the last call that the server received, without metadata."""
    params: Json = mcp.calls[-1].json["params"]
    return {name: value for name, value in params.items() if name != "_meta"}


class Booking:
    """A client that accepts requests for input, and the tool `book`, which sends them. `client` parses strictly."""

    def __init__(self, gateway: Approving) -> None:
        self.gateway = gateway
        self.tools = [gateway.tool(require_approval="never")]

    async def ask(self, request_input: Any = "A table in Rome.", **more: Any) -> Json:
        return await self.gateway.ask(request_input, tools=self.tools, extra_body={"elicitation": True}, **more)

    async def refuse(self, request_input: Any, **more: Any) -> tuple[int, str | None, str | None]:
        return await self.gateway.refuse(request_input, tools=self.tools, elicitation=True, **more)


class Asking(Booking):
    """The same before a scripted server."""

    def __init__(self, gateway: Approving, mcp: ScriptedMcp) -> None:
        super().__init__(gateway)
        self.tools = [gateway.tool(server_label="lookup", server_url=mcp.url, require_approval="never")]
