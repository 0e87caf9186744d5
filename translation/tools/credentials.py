"""Finds and removes credentials in the tools of a request: an `mcp` tool carries some for its server.

They go to the upstream that calls the server, and nowhere else: they are not stored, echoed or quoted.
"""

from collections.abc import Sequence
from typing import Any, Final

from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.representation.shared_tools import SharedTools

_CREDENTIAL_KEYS: Final = frozenset({"authorization", "headers"})
"""Keys of an `mcp` tool that hold credentials. Source: https://platform.openai.com/docs/guides/tools-connectors-mcp"""


_MAX_CHARS: Final = 8 * 1024
_MAX_TOTAL_CHARS: Final = 128 * 1024
_MAX_CREDENTIALS: Final = 256
"""The bounds of the credentials of one request."""


def list_credentials(body: Json) -> list[str]:
    """Returns the credentials of a request. One with a scheme, such as `Bearer`, counts with and without it.

    Raises InvalidRequest for credentials that are too long: they are searched in every text that is redacted.
    """
    texts = _credentials_of(body)
    if not texts:
        return texts
    _require_bounded(texts, "mcp_servers" if body.get("mcp_servers") else "tools")
    return texts + [token for text in texts if (token := text.partition(" ")[2])]


def _require_bounded(credentials: Sequence[str], param: str) -> None:
    if max(map(len, credentials)) > _MAX_CHARS:
        raise InvalidRequest(
            f"a credential of a server may have at most {_MAX_CHARS} characters",
            param=param,
            code="credential_too_long",
        )
    if len(credentials) > _MAX_CREDENTIALS or sum(map(len, credentials)) > _MAX_TOTAL_CHARS:
        raise InvalidRequest(
            f"the servers of a request may have at most {_MAX_CREDENTIALS} credentials, of {_MAX_TOTAL_CHARS} "
            "characters together",
            param=param,
            code="too_many_credentials",
        )


def remove_body_credentials(body: Json) -> Json:
    """Returns a request body without the credentials of its tools and of its input items."""
    removed = {
        **body,
        "input": remove_item_credentials(body.get("input")),
        "tools": remove_credentials(body.get("tools")),
    }
    return {name: value for name, value in removed.items() if name in body}


def remove_item_credentials(items: Any) -> Any:
    """Returns items without the credentials of tools in them: the same list if none contains tools."""
    if not isinstance(items, list) or not any(map(_has_tools, items)):
        return items
    return [{**item, "tools": remove_credentials(item["tools"])} if _has_tools(item) else item for item in items]


def remove_credentials(tools: Any) -> Any:
    """Returns tools without their credentials: the same list if there are none."""
    if not _list_carriers(tools):
        return tools
    return [_remove_from_tool(tool) if _may_carry_credentials(tool) else tool for tool in tools]


def _has_tools(item: Any) -> bool:
    """Whether an input item has tools. The input of other APIs may be a list of anything."""
    return isinstance(item, dict) and "tools" in item


def _list_carriers(tools: Any) -> list[dict[str, Any]]:
    """Returns the tools that may carry credentials. Most requests with tools have none, so no call is made for each."""
    if not isinstance(tools, list) or isinstance(tools, SharedTools):
        return []
    return [tool for tool in tools if isinstance(tool, dict) and (tool.get("type") == "mcp" or "tools" in tool)]


def _may_carry_credentials(tool: Any) -> bool:
    return isinstance(tool, dict) and (tool.get("type") == "mcp" or "tools" in tool)


def _remove_from_tool(tool: dict[str, Any]) -> dict[str, Any]:
    if tool.get("type") == "mcp":
        return {key: value for key, value in tool.items() if key not in _CREDENTIAL_KEYS}
    return {**tool, "tools": remove_credentials(tool["tools"])}


def _credentials_of(body: Json) -> list[str]:
    credentials: list[str] = []
    if tools := body.get("tools"):
        _collect_credentials(tools, credentials)
    if servers := body.get("mcp_servers"):  # of the Messages API
        credentials += [token for server in servers if (token := server.get("authorization_token"))]
    if isinstance(items := body.get("input"), list):
        for item in items:
            if _has_tools(item):
                _collect_credentials(item["tools"], credentials)
    return credentials


def _collect_credentials(tools: Any, credentials: list[str]) -> None:
    """Appends the credentials of tools. This is no generator, because it runs for every request with tools."""
    for tool in _list_carriers(tools):
        if tool.get("type") != "mcp":
            _collect_credentials(tool["tools"], credentials)
            continue
        headers = tool.get("headers")
        values = [tool.get("authorization"), *(headers.values() if isinstance(headers, dict) else ())]
        credentials += [value for value in values if isinstance(value, str) and value]
