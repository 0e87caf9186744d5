"""What a model is examined for: one row a feature, in the order of the report.

What is asked over chat completions is in `gateway.doctor.checks.chat_probes`; all else is asked over responses.

A check judges the protocol and not the wit: an answer may be wrong, but not without an end, a usage or an id.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from gateway.doctor.checks import chat_probes, tool_probes
from gateway.doctor.checks.check_session import Visit
from gateway.doctor.checks.event_order import check_order
from gateway.doctor.checks.expectations import (
    COUNT,
    COUNT_FURTHER,
    COUNT_TO_STOP,
    GREETING,
    LIMIT,
    STOP,
    SUM_FORM,
    SUM_QUESTION,
    held_to_limit,
    held_to_stop,
    held_to_sum,
)
from gateway.doctor.checks.response_shape import answer_of, check_response, check_usage, items, text_of
from gateway.doctor.checks.sample_image import PICTURE
from gateway.doctor.checks.verdicts import Refusal, Untold, Wrong, hold
from translation.representation.json_types import Json

_LONGEST_WINDOW: Final = 300_000
"""Where the context holds more than that, trying to overflow it would cost more than it tells."""


class Check(NamedTuple):
    """One row of the report."""

    name: str
    title: str
    run: Callable[[Visit], str]
    """A remark, mostly none. Raises what `gateway.doctor.checks.verdicts` lists."""
    needs: tuple[str, ...] = ()
    """Capabilities it takes. Where one is not declared, what is right is a refusal or a loss."""
    lost: str | None = None
    """The parameter that the reply lists as dropped where what it takes is not there."""
    may_lack: bool = False
    """No capability declares it, so that a refusal by name, or a loss, is an answer."""


def text(visit: Visit) -> str:
    """A whole response."""
    answer_of(_whole(visit, input=GREETING))
    return ""


def streaming(visit: Visit) -> str:
    """Every event where it belongs, deltas that add up, one end."""
    heard = visit.stream(input=GREETING)
    check_order(heard.events, done=heard.done)
    answer_of(check_response(heard.response))
    return f"{len(heard.events)} events"


def usage(visit: Visit) -> str:
    """Tokens are counted, in a whole response and at the end of a stream."""
    counted = check_usage(_whole(visit, input=GREETING).get("usage"))
    if visit.subject.capabilities.streaming:
        check_usage(visit.stream(input=GREETING).response.get("usage"))
    return f"{counted['input_tokens']} in, {counted['output_tokens']} out"


def length(visit: Visit) -> str:
    """An answer that is cut off says so."""
    prompts = (COUNT, COUNT_FURTHER)
    return held_to_limit(_whole(visit, input=prompt, max_output_tokens=LIMIT) for prompt in prompts)


def stop(visit: Visit) -> str:
    """A stop sequence ends the answer, and is no part of it."""
    return held_to_stop(_whole(visit, input=COUNT_TO_STOP, stop=[STOP]))


def json_schema(visit: Visit) -> str:
    """The answer is what its schema says."""
    return held_to_sum(_whole(visit, input=SUM_QUESTION, text={"format": {"type": "json_schema", **SUM_FORM}}))


def images(visit: Visit) -> str:
    """A picture is taken."""
    parts = [
        {"type": "input_text", "text": "Which colour is this? Reply with one word."},
        {"type": "input_image", "image_url": PICTURE, "detail": "auto"},
    ]
    answer_of(_whole(visit, input=[{"role": "user", "content": parts}]))
    return ""


def reasoning(visit: Visit) -> str:
    """It thinks when it is asked to, beside its answer."""
    response = _whole(visit, input="What is 3 + 4?", reasoning={"effort": "low"})
    text_of(response)
    tokens = ((response.get("usage") or {}).get("output_tokens_details") or {}).get("reasoning_tokens")
    if not items(response, "reasoning") and not tokens:
        lost = next((loss for loss in visit.losses if loss.startswith("reasoning=")), None)
        unasked = f"it was not asked to think, as the reply says: {lost}"
        raise Untold(unasked if lost else "it did not think; where it cannot, write capabilities: {reasoning: false}")
    return f"{tokens} tokens" if tokens else ""


def replay(visit: Visit) -> str:
    """What it thought is taken back in the next turn, between a call and its result where it has tools."""
    asked = [{"role": "user", "content": tool_probes.QUESTION}]
    request: Json = {"reasoning": {"effort": "low"}, "include": ["reasoning.encrypted_content"]}
    if visit.subject.capabilities.tools:
        request["tools"] = [tool_probes.WEATHER]
    first = _whole(visit, input=asked, **request)
    thoughts = items(first, "reasoning")
    if not thoughts:
        raise Untold("it did not think, so that there is nothing to take back")
    followed = tool_probes.answered(first)
    if not items(first, "function_call"):
        followed = [*followed, {"role": "user", "content": GREETING}]
    _whole(visit, input=[*asked, *followed], **request)
    sealed = sum(bool(item.get("encrypted_content")) for item in thoughts)
    return f"{sealed} sealed" if sealed else ""


def errors(visit: Visit) -> str:
    """What its upstream refuses comes back as an error that says what is wrong."""
    try:
        visit.whole(model=visit.subject.stranger, input=GREETING)
    except Refusal as refusal:
        told = f"an unknown model is answered with {refusal.status} {refusal.code}"
        hold(refusal.status is not None and 400 <= refusal.status < 500, told)
        hold(bool(refusal.error["message"]) and bool(refusal.error["type"]), "an error has no message or no type")
        return told
    raise Untold("it answers for every name of a model")


def cancel(visit: Visit) -> str:
    """Whoever leaves a stream frees the model for the next."""
    with visit.streaming(input=COUNT_FURTHER) as (heard, events):
        for event in events:
            if str(event.get("type")).endswith(".delta"):
                break
        if not heard.events or not str(heard.events[-1].get("type")).endswith(".delta"):
            raise Untold("it was over before anybody could leave")
    hold(visit.settled(), "its engine is still at work for a client that left")
    check_response(visit.whole(input=GREETING))
    return ""


def overflow(visit: Visit) -> str:
    """A prompt that does not fit is refused by that name."""
    window = visit.subject.capabilities.max_context_window
    if window is None:
        raise Untold("how much fits is not known: capabilities: {max_context_window: ...} says it")
    if window > _LONGEST_WINDOW:
        raise Untold(f"a prompt of more than {window} tokens is too dear to try")
    try:
        visit.whole(input="river " * (window + window // 10 + LIMIT), max_output_tokens=LIMIT)
    except Refusal as refusal:
        hold(refusal.code == "context_length_exceeded", f"it is refused as {refusal}")
        return f"at {window} tokens"
    raise Wrong(f"it answers a prompt of more than {window} tokens, which is all that should fit")


def _whole(visit: Visit, **body: object) -> Json:
    return check_response(visit.whole(**body))


CHECKS: Final = (
    Check("text", "Text", text),
    Check("streaming", "Streaming, in order", streaming, ("streaming",)),
    Check("usage", "Usage", usage),
    Check("length", "Length", length),
    Check("stop", "Stop sequences", stop, lost="stop", may_lack=True),
    Check("tools", "Tools: call and result", tool_probes.call_and_result, ("tools",)),
    Check(
        "tools_parallel",
        "Tools: several at once",
        tool_probes.several_calls,
        ("tools", "parallel_tools"),
        "parallel_tool_calls",
    ),
    Check("tools_streamed", "Tools: streamed", tool_probes.streamed_call, ("tools", "streaming")),
    Check("tools_forced", "Tools: forced", tool_probes.forced_call, ("tools",), "tool_choice", may_lack=True),
    Check("json_schema", "JSON schema", json_schema, ("json_schema",)),
    Check("images", "Images", images, ("images",)),
    Check("reasoning", "Reasoning", reasoning, ("reasoning",), "reasoning"),
    Check("replay", "Reasoning, replayed", replay, ("reasoning",), "reasoning"),
    Check("errors", "Errors", errors),
    Check("cancel", "Cancel", cancel, ("streaming",)),
    Check("overflow", "Context overflow", overflow),
    Check("chat_text", "Chat: text", chat_probes.text),
    Check("chat_streaming", "Chat: streaming, in order", chat_probes.streaming, ("streaming",)),
    Check("chat_usage", "Chat: usage", chat_probes.usage),
    Check("chat_length", "Chat: length", chat_probes.length),
    Check("chat_stop", "Chat: stop sequences", chat_probes.stop, lost="stop", may_lack=True),
    Check("chat_tools", "Chat: call and result", chat_probes.call_and_result, ("tools",)),
    Check("chat_tools_forced", "Chat: forced tool", chat_probes.forced_call, ("tools",), "tool_choice", may_lack=True),
    Check("chat_json_schema", "Chat: JSON schema", chat_probes.json_schema, ("json_schema",)),
)
"""The first one comes first: where it cannot be answered at all, the others are not asked."""
