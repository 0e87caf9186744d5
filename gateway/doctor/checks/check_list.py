"""The checks of the doctor, one row per feature, in the order of the report.

A check judges the protocol, not the quality of the answer: the answer may be wrong, but the reply must have an end, a
usage and an id.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from gateway.doctor.checks import (
    chat_probes,
    hosted_probes,
    message_probes,
    prefix_probe,
    response_probes,
    tool_probes,
)
from gateway.doctor.checks.check_session import CheckSession


class FeatureCheck(NamedTuple):
    """One row of the report."""

    name: str
    title: str
    run: Callable[[CheckSession], str]
    """Returns a remark, mostly "". Raises the exceptions that `gateway.doctor.checks.verdicts` lists."""
    needs: tuple[str, ...] = ()
    """The capabilities that the check requires. If one is not declared, a refusal or a loss is correct."""
    loss_param: str | None = None
    """The parameter that the reply lists as dropped if the upstream lacks the feature."""
    is_optional: bool = False
    """Whether no capability declares the feature. A refusal by name, or a loss, is then correct."""
    uses_sample_tools: bool = False
    """Whether the gateway needs the server of `gateway.doctor.sample_tools`."""


CHECKS: Final = (
    FeatureCheck("text", "Text", response_probes.probe_text),
    FeatureCheck("streaming", "Streaming, in order", response_probes.probe_streaming, ("streaming",)),
    FeatureCheck("usage", "Usage", response_probes.probe_usage),
    FeatureCheck("length", "Length", response_probes.probe_length),
    FeatureCheck("stop", "Stop sequences", response_probes.probe_stop, loss_param="stop", is_optional=True),
    FeatureCheck("tools", "Tools: call and result", tool_probes.probe_call_and_result, ("tools",)),
    FeatureCheck(
        "tools_parallel",
        "Tools: several at once",
        tool_probes.probe_parallel_calls,
        ("tools", "parallel_tools"),
        "parallel_tool_calls",
    ),
    FeatureCheck("tools_streamed", "Tools: streamed", tool_probes.probe_streamed_call, ("tools", "streaming")),
    FeatureCheck(
        "tools_forced", "Tools: forced", tool_probes.probe_forced_call, ("tools",), "tool_choice", is_optional=True
    ),
    FeatureCheck(
        "tools_hosted",
        "Tools: run by the gateway",
        hosted_probes.probe_hosted_tools,
        ("tools",),
        uses_sample_tools=True,
    ),
    FeatureCheck("json_schema", "JSON schema", response_probes.probe_json_schema, ("json_schema",)),
    FeatureCheck("images", "Images", response_probes.probe_images, ("images",)),
    FeatureCheck("reasoning", "Reasoning", response_probes.probe_reasoning, ("reasoning",), "reasoning"),
    FeatureCheck("replay", "Reasoning, replayed", response_probes.probe_reasoning_replay, ("reasoning",), "reasoning"),
    FeatureCheck("errors", "Errors", response_probes.probe_errors),
    FeatureCheck("cancel", "Cancel", response_probes.probe_cancel, ("streaming",)),
    FeatureCheck("overflow", "Context overflow", response_probes.probe_overflow),
    FeatureCheck("prefix_cache", "Prefix cache", prefix_probe.probe_prefix_cache),
    FeatureCheck("chat_text", "Chat: text", chat_probes.probe_text),
    FeatureCheck("chat_streaming", "Chat: streaming, in order", chat_probes.probe_streaming, ("streaming",)),
    FeatureCheck("chat_usage", "Chat: usage", chat_probes.probe_usage),
    FeatureCheck("chat_length", "Chat: length", chat_probes.probe_length),
    FeatureCheck("chat_stop", "Chat: stop sequences", chat_probes.probe_stop, loss_param="stop", is_optional=True),
    FeatureCheck("chat_tools", "Chat: call and result", chat_probes.probe_call_and_result, ("tools",)),
    FeatureCheck(
        "chat_tools_forced",
        "Chat: forced tool",
        chat_probes.probe_forced_call,
        ("tools",),
        "tool_choice",
        is_optional=True,
    ),
    FeatureCheck("chat_json_schema", "Chat: JSON schema", chat_probes.probe_json_schema, ("json_schema",)),
    FeatureCheck("messages_text", "Messages: text", message_probes.probe_text),
    FeatureCheck("messages_streaming", "Messages: streaming, in order", message_probes.probe_streaming, ("streaming",)),
    FeatureCheck("messages_tools", "Messages: call and result", message_probes.probe_call_and_result, ("tools",)),
    FeatureCheck(
        "messages_tools_parallel", "Messages: several at once", message_probes.probe_several_calls, ("tools",)
    ),
    FeatureCheck("messages_thinking", "Messages: thinking", message_probes.probe_thinking, ("reasoning",), "thinking"),
    FeatureCheck("messages_count", "Messages: token count", message_probes.probe_count),
    FeatureCheck("messages_errors", "Messages: errors", message_probes.probe_malformed_request),
)
"""The first check runs first. If it gets no response at all, the others are skipped."""
