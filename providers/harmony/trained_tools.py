"""The tools that gpt-oss knows from its training. They are described in the system message, each in the namespace of
its tool, and their calls and results are on the channel for thinking."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple


class CallHeader(NamedTuple):
    """How the calls of a tool are written: the recipient, the channels that they may be on, and the content types.

    The first channel is the one on which calls in the prompt and their results are, and `written_type` is the content
    type of calls in the prompt. A model may write the `other_type` too.
    """

    recipient: str
    channels: tuple[str, ...]
    written_type: str
    other_type: str | None


def _build_browser() -> Any:
    from openai_harmony import ToolNamespaceConfig

    return ToolNamespaceConfig.browser()


_NAMESPACES: Final[Mapping[str, Callable[[], Any]]] = {"browser": _build_browser}
"""Namespace -> its description, with all of its tools."""


def find_call_header(function_name: str, trained_names: Mapping[str, str]) -> CallHeader:
    """Returns how calls of a function are written. `trained_names` has the functions that stand for trained tools."""
    trained_name = trained_names.get(function_name, "")
    if is_trained(trained_name):
        return CallHeader(trained_name, ("analysis", "commentary"), "code", _JSON)
    return CallHeader(f"functions.{function_name}", ("commentary",), _JSON, None)


_JSON: Final = "<|constrain|>json"


def is_trained(trained_name: str) -> bool:
    """Whether gpt-oss has a form for a tool with this name, such as `browser.search`."""
    namespace, _, name = trained_name.partition(".")
    return bool(name) and namespace in _NAMESPACES


def build_namespaces(trained_names: Collection[str]) -> list[Any]:
    """Returns the descriptions of these tools for the system message, in their namespaces."""
    namespaces: list[Any] = []
    for name, build in _NAMESPACES.items():
        namespace = build()
        namespace.tools = [tool for tool in namespace.tools if f"{name}.{tool.name}" in trained_names]
        if namespace.tools:
            namespaces.append(namespace)
    return namespaces
