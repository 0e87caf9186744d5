"""Lifts the MCP servers of a request of the Messages API, whose tools the server of the API runs.

A server is in `mcp_servers`, and a toolset in `tools` lists its offered tools. Requests with the first beta have no
toolsets: then the server itself has the list. Source: `anthropic` 2.12.0, types/beta/beta_mcp_toolset_param.py and
beta_request_mcp_server_url_definition_param.py.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from translation.hosted.call_forms import output_text_of
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.tools.arguments import parse_past_arguments

TOOLSET: Final = "mcp_toolset"

_MAX_ARGS_BYTES: Final = 2**31
"""In messages and in their streams, arguments are an object, whatever their length."""


def lift_mcp_servers(body: Json) -> list[Json]:
    """Returns the servers of a valid body as `mcp` tools of the Responses API.

    A toolset without a server in the body is for one that the gateway's configuration has. The API has no approvals.
    """
    servers = {server["name"]: server for server in body.get("mcp_servers") or ()}
    lifted: list[Json] = []
    grouped: set[str] = set()
    for tool in body.get("tools") or ():
        if tool.get("type") == TOOLSET:
            name = tool["mcp_server_name"]
            grouped.add(name)
            lifted.append(_build_tool(name, servers.get(name), _allow_by_configs(tool)))
    for name, server in servers.items():
        configuration = server.get("tool_configuration") or {}
        if name not in grouped and configuration.get("enabled") is not False:
            lifted.append(_build_tool(name, server, configuration.get("allowed_tools")))
    return lifted


def _build_tool(name: str, server: Json | None, allowed_tools: Any) -> Json:
    tool: Json = {"type": "mcp", "server_label": name}
    if server is not None:
        tool |= {"server_url": server["url"], "require_approval": "never"}
        if server.get("authorization_token"):
            tool["authorization"] = server["authorization_token"]
    if allowed_tools is not None:
        tool["allowed_tools"] = allowed_tools
    return tool


def _allow_by_configs(tool: Json) -> Any:
    """Returns `allowed_tools` for a toolset; None if it offers all tools."""
    configs: Mapping[str, Json] = tool.get("configs") or {}
    if (tool.get("default_config") or {}).get("enabled") is False:
        return [name for name, config in configs.items() if config.get("enabled")]
    excluded = [name for name, config in configs.items() if config.get("enabled") is False]
    return {"excluded_tool_names": excluded} if excluded else None


def list_toolset_losses(tools: Sequence[Json]) -> list[Loss]:
    """Returns the losses of the toolsets among the tools of a request that is not relayed."""
    return [
        loss
        for index, tool in enumerate(tools)
        if tool.get("type") == TOOLSET
        for loss in _list_losses(tool, f"tools[{index}]")
    ]


def _list_losses(tool: Json, param: str) -> list[Loss]:
    configs = [tool.get("default_config") or {}, *(tool.get("configs") or {}).values()]
    losses = [Loss(f"{param}.tools", "dropped")] if tool.get("tools") else []
    if any(config.get("defer_loading") for config in configs):
        losses.append(Loss(f"{param}.defer_loading", "dropped"))
    return losses


def build_mcp_use(item: Item, arguments: str) -> Json:
    """Returns the block of a call of a server's tool."""
    return {
        "type": "mcp_tool_use",
        "id": item["id"],
        "name": item["name"],
        "input": parse_past_arguments(arguments, "", [], max_bytes=_MAX_ARGS_BYTES),
        "server_name": item["server_label"],
    }


def build_mcp_result(item: Item) -> Json:
    """Returns the block of the result of such a call, which has ended."""
    text = output_text_of(item)
    return {
        "type": "mcp_tool_result",
        "tool_use_id": item["id"],
        "is_error": bool(item.get("error")) or item.get("status") == "incomplete",
        "content": [{"type": "text", "text": text}] if text else [],
    }


def lift_mcp_use(block: Json) -> Item:
    """Returns the item of a past call. Its result is added by `add_mcp_result`."""
    return {
        "type": "mcp_call",
        "id": block["id"],
        "server_label": block["server_name"],
        "name": block["name"],
        "arguments": orjson.dumps(block["input"]).decode(),
        "status": "incomplete",
    }


def add_mcp_result(block: Json, calls: Mapping[tuple[str, str], Item]) -> bool:
    """Adds the result of a past call to its item, one of `calls` by type and id. Returns whether there is one."""
    item = calls.get(("mcp_call", block["tool_use_id"]))
    if item is None:
        return False
    content = block.get("content") or ""
    text = content if isinstance(content, str) else "\n".join(part["text"] for part in content)
    failed = bool(block.get("is_error"))
    item |= {"status": "failed", "error": text} if failed else {"status": "completed", "output": text}
    return True
