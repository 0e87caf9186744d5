"""Decides which of a server's tools a request may use, and which calls need an approval.

It applies `allowed_tools` and `require_approval`. Source: https://platform.openai.com/docs/guides/tools-connectors-mcp
"""

from typing import Any

from translation.representation.json_types import Json


def is_allowed(allowed_tools: Any, name: str, *, is_read_only: bool) -> bool:
    """Whether `allowed_tools` of an `mcp` tool lets a request use a tool: a list of names, or a filter; None is all."""
    if allowed_tools is None:
        return True
    if isinstance(allowed_tools, list):
        return name in allowed_tools
    if (excluded := allowed_tools.get("excluded_tool_names")) is not None:  # of toolsets of the Messages API
        return name not in excluded
    return _matches(allowed_tools, name, is_read_only)


def needs_approval(require_approval: Any, name: str, *, is_read_only: bool) -> bool:
    """Whether a call of a tool needs an approval by `require_approval` of an `mcp` tool. Without it, every call does.

    A tool that both filters match needs one. A tool that neither matches needs one too, unless there is only an
    `always` filter, which then names all the tools that do.
    """
    if not isinstance(require_approval, dict):
        return bool(require_approval != "never")
    never, always = require_approval.get("never"), require_approval.get("always")
    if always is not None and _matches(always, name, is_read_only):
        return True
    if never is not None:
        return not _matches(never, name, is_read_only)
    return always is None


def may_need_approval(require_approval: Any) -> bool:
    """Whether a call of some tool may need an approval by this `require_approval`."""
    return bool(require_approval != "never")


def _matches(tool_filter: Json, name: str, is_read_only: bool) -> bool:
    """Whether a filter matches a tool: each of the keys that it has must. An empty filter matches no tool."""
    names, read_only = tool_filter.get("tool_names"), tool_filter.get("read_only")
    if names is None and read_only is None:
        return False
    return (names is None or name in names) and (read_only is None or read_only == is_read_only)
