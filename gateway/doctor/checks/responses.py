"""What a model is examined for: one row a feature, in the order of the report.

What is asked over chat completions is in `gateway.doctor.checks.chat_probes`; all else is asked over responses.

A check judges the protocol and not the wit: an answer may be wrong, but not without an end, a usage or an id.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from gateway.doctor.checks import chat_probes, tool_probes
from gateway.doctor.checks.check_session import CheckSession
from gateway.doctor.checks.event_order import check_order
from gateway.doctor.checks.expectations import (
    COUNT_PROMPT,
    GREETING_PROMPT,
    LONG_COUNT_PROMPT,
    STOP_PROMPT,
    STOP_SEQUENCE,
    SUM_FORMAT,
    SUM_PROMPT,
    TOKEN_LIMIT,
    verify_stop,
    verify_sum_format,
    verify_token_limit,
)
from gateway.doctor.checks.response_shape import (
    check_response,
    check_usage,
    items_of_type,
    message_text_of,
    require_text,
)
from gateway.doctor.checks.sample_image import SAMPLE_IMAGE_URL
from gateway.doctor.checks.verdicts import CheckFailed, ErrorReply, Inconclusive, require
from translation.representation.json_types import Json

_MAX_PROBED_WINDOW: Final = 300_000
"""Where the context holds more than that, trying to overflow it would cost more than it tells."""


class FeatureCheck(NamedTuple):
    """One row of the report."""

    name: str
    title: str
    run: Callable[[CheckSession], str]
    """A remark, mostly none. Raises what `gateway.doctor.checks.verdicts` lists."""
    needs: tuple[str, ...] = ()
    """Capabilities it takes. Where one is not declared, what is right is a refusal or a loss."""
    loss_param: str | None = None
    """The parameter that the reply lists as dropped where what it takes is not there."""
    is_optional: bool = False
    """No capability declares it, so that a refusal by name, or a loss, is an answer."""


def probe_text(session: CheckSession) -> str:
    """A whole response."""
    require_text(_create_response(session, input=GREETING_PROMPT))
    return ""


def probe_streaming(session: CheckSession) -> str:
    """Every event where it belongs, deltas that add up, one end."""
    received = session.stream_response(input=GREETING_PROMPT)
    check_order(received.events, done=received.is_done)
    require_text(check_response(received.response))
    return f"{len(received.events)} events"


def probe_usage(session: CheckSession) -> str:
    """Tokens are counted, in a whole response and at the end of a stream."""
    counted = check_usage(_create_response(session, input=GREETING_PROMPT).get("usage"))
    if session.subject.capabilities.streaming:
        check_usage(session.stream_response(input=GREETING_PROMPT).response.get("usage"))
    return f"{counted['input_tokens']} in, {counted['output_tokens']} out"


def probe_length(session: CheckSession) -> str:
    """An answer that is cut off says so."""
    prompts = (COUNT_PROMPT, LONG_COUNT_PROMPT)
    return verify_token_limit(
        _create_response(session, input=prompt, max_output_tokens=TOKEN_LIMIT) for prompt in prompts
    )


def probe_stop(session: CheckSession) -> str:
    """A stop sequence ends the answer, and is no part of it."""
    return verify_stop(_create_response(session, input=STOP_PROMPT, stop=[STOP_SEQUENCE]))


def probe_json_schema(session: CheckSession) -> str:
    """The answer is what its schema says."""
    return verify_sum_format(
        _create_response(session, input=SUM_PROMPT, text={"format": {"type": "json_schema", **SUM_FORMAT}})
    )


def probe_images(session: CheckSession) -> str:
    """A picture is taken."""
    parts = [
        {"type": "input_text", "text": "Which colour is this? Reply with one word."},
        {"type": "input_image", "image_url": SAMPLE_IMAGE_URL, "detail": "auto"},
    ]
    require_text(_create_response(session, input=[{"role": "user", "content": parts}]))
    return ""


def probe_reasoning(session: CheckSession) -> str:
    """It thinks when it is asked to, beside its answer."""
    response = _create_response(session, input="What is 3 + 4?", reasoning={"effort": "low"})
    message_text_of(response)
    tokens = ((response.get("usage") or {}).get("output_tokens_details") or {}).get("reasoning_tokens")
    if not items_of_type(response, "reasoning") and not tokens:
        lost = next((loss for loss in session.losses if loss.startswith("reasoning=")), None)
        reason = f"it was not asked to think, as the reply says: {lost}"
        raise Inconclusive(
            reason if lost else "it did not think; where it cannot, write capabilities: {reasoning: false}"
        )
    return f"{tokens} tokens" if tokens else ""


def probe_reasoning_replay(session: CheckSession) -> str:
    """What it thought is taken back in the next turn, between a call and its result where it has tools."""
    question = [{"role": "user", "content": tool_probes.WEATHER_PROMPT}]
    request: Json = {"reasoning": {"effort": "low"}, "include": ["reasoning.encrypted_content"]}
    if session.subject.capabilities.tools:
        request["tools"] = [tool_probes.WEATHER_TOOL]
    first = _create_response(session, input=question, **request)
    thoughts = items_of_type(first, "reasoning")
    if not thoughts:
        raise Inconclusive("it did not think, so that there is nothing to take back")
    next_input = tool_probes.continue_with_results(first)
    if not items_of_type(first, "function_call"):
        next_input = [*next_input, {"role": "user", "content": GREETING_PROMPT}]
    _create_response(session, input=[*question, *next_input], **request)
    sealed = sum(bool(item.get("encrypted_content")) for item in thoughts)
    return f"{sealed} sealed" if sealed else ""


def probe_errors(session: CheckSession) -> str:
    """What its upstream refuses comes back as an error that says what is wrong."""
    try:
        session.create_response(model=session.subject.unknown_model, input=GREETING_PROMPT)
    except ErrorReply as refusal:
        remark = f"an unknown model is answered with {refusal.status} {refusal.code}"
        require(refusal.status is not None and 400 <= refusal.status < 500, remark)
        require(bool(refusal.error["message"]) and bool(refusal.error["type"]), "an error has no message or no type")
        return remark
    raise Inconclusive("it answers for every name of a model")


def probe_cancel(session: CheckSession) -> str:
    """Whoever leaves a stream frees the model for the next."""
    with session.open_response_stream(input=LONG_COUNT_PROMPT) as (received, events):
        for event in events:
            if str(event.get("type")).endswith(".delta"):
                break
        if not received.events or not str(received.events[-1].get("type")).endswith(".delta"):
            raise Inconclusive("it was over before anybody could leave")
    require(session.wait_until_idle(), "its engine is still at work for a client that left")
    check_response(session.create_response(input=GREETING_PROMPT))
    return ""


def probe_overflow(session: CheckSession) -> str:
    """A prompt that does not fit is refused by that name."""
    window = session.subject.capabilities.max_context_window
    if window is None:
        raise Inconclusive("how much fits is not known: capabilities: {max_context_window: ...} says it")
    if window > _MAX_PROBED_WINDOW:
        raise Inconclusive(f"a prompt of more than {window} tokens is too dear to try")
    try:
        session.create_response(input="river " * (window + window // 10 + TOKEN_LIMIT), max_output_tokens=TOKEN_LIMIT)
    except ErrorReply as refusal:
        require(refusal.code == "context_length_exceeded", f"it is refused as {refusal}")
        return f"at {window} tokens"
    raise CheckFailed(f"it answers a prompt of more than {window} tokens, which is all that should fit")


def _create_response(session: CheckSession, **body: object) -> Json:
    return check_response(session.create_response(**body))


CHECKS: Final = (
    FeatureCheck("text", "Text", probe_text),
    FeatureCheck("streaming", "Streaming, in order", probe_streaming, ("streaming",)),
    FeatureCheck("usage", "Usage", probe_usage),
    FeatureCheck("length", "Length", probe_length),
    FeatureCheck("stop", "Stop sequences", probe_stop, loss_param="stop", is_optional=True),
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
    FeatureCheck("json_schema", "JSON schema", probe_json_schema, ("json_schema",)),
    FeatureCheck("images", "Images", probe_images, ("images",)),
    FeatureCheck("reasoning", "Reasoning", probe_reasoning, ("reasoning",), "reasoning"),
    FeatureCheck("replay", "Reasoning, replayed", probe_reasoning_replay, ("reasoning",), "reasoning"),
    FeatureCheck("errors", "Errors", probe_errors),
    FeatureCheck("cancel", "Cancel", probe_cancel, ("streaming",)),
    FeatureCheck("overflow", "Context overflow", probe_overflow),
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
)
"""The first one comes first: where it cannot be answered at all, the others are not asked."""
