"""What a model is examined for: one row a feature, in the order of the report.

A check judges the protocol and not the wit: an answer may be wrong, but not without an end, a usage or an id.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import jsonschema_rs
import orjson

from gateway.doctor import tools
from gateway.doctor.order import check_order
from gateway.doctor.picture import PICTURE
from gateway.doctor.reading import answer_of, check_response, check_usage, cut, items, text_of
from gateway.doctor.verdicts import Refusal, Untold, Wrong, hold
from gateway.doctor.visit import Visit
from translation.json_types import Json

_SHORT: Final = "Say hello."
_LONG: Final = "Count to 30."
_LONGER: Final = "Count to 30, and write every number on a line of its own, with nothing else before it or after it."
_LIMIT: Final = 16
"""The fewest tokens that the API lets anyone ask for."""
_STOP: Final = "12"
_LONGEST_WINDOW: Final = 300_000
"""Where the context holds more than that, trying to overflow it would cost more than it tells."""

_SUM: Final[Json] = {
    "type": "object",
    "properties": {name: {"type": "integer"} for name in ("a", "b", "sum")},
    "required": ["a", "b", "sum"],
    "additionalProperties": False,
}


class Check(NamedTuple):
    """One row of the report."""

    name: str
    title: str
    run: Callable[[Visit], str]
    """A remark, mostly none. Raises what `gateway.doctor.verdicts` lists."""
    needs: tuple[str, ...] = ()
    """Capabilities it takes. Where one is not declared, what is right is a refusal or a loss."""
    lost: str | None = None
    """The parameter that the reply lists as dropped where what it takes is not there."""
    may_lack: bool = False
    """No capability declares it, so that a refusal by name, or a loss, is an answer."""


def text(visit: Visit) -> str:
    """A whole response."""
    answer_of(_whole(visit, input=_SHORT))
    return ""


def streaming(visit: Visit) -> str:
    """Every event where it belongs, deltas that add up, one end."""
    heard = visit.stream(input=_SHORT)
    check_order(heard.events, done=heard.done)
    answer_of(check_response(heard.response))
    return f"{len(heard.events)} events"


def usage(visit: Visit) -> str:
    """Tokens are counted, in a whole response and at the end of a stream."""
    counted = check_usage(_whole(visit, input=_SHORT).get("usage"))
    if visit.subject.capabilities.streaming:
        check_usage(visit.stream(input=_SHORT).response.get("usage"))
    return f"{counted['input_tokens']} in, {counted['output_tokens']} out"


def length(visit: Visit) -> str:
    """An answer that is cut off says so."""
    for prompt in (_LONG, _LONGER):
        response = _whole(visit, input=prompt, max_output_tokens=_LIMIT)
        written = (response.get("usage") or {}).get("output_tokens") or 0
        hold(written <= _LIMIT, f"it wrote {written} tokens where {_LIMIT} were asked for")
        if response["status"] == "incomplete":
            reason = response["incomplete_details"].get("reason")
            hold(reason == "max_output_tokens", f"it was cut off at its limit, and says {reason}")
            return ""
    raise Untold(f"it needed fewer than {_LIMIT} tokens")


def stop(visit: Visit) -> str:
    """A stop sequence ends the answer, and is no part of it."""
    response = _whole(visit, input="Count to 12.", stop=[_STOP])
    hold(_STOP not in text_of(response), "the stop sequence is in the answer")
    hold(response["status"] == "completed", cut(response) if response["incomplete_details"] else "")
    return ""


def json_schema(visit: Visit) -> str:
    """The answer is what its schema says."""
    form = {"type": "json_schema", "name": "sum", "schema": _SUM, "strict": True}
    response = _whole(visit, input="Give me JSON for 3 + 4.", text={"format": form})
    answer = answer_of(response)
    if response["status"] == "incomplete":
        raise Untold(cut(response))
    try:
        jsonschema_rs.validate(_SUM, orjson.loads(answer))
    except orjson.JSONDecodeError:
        raise Wrong(f"the answer is no JSON: {answer[:80]}") from None
    except jsonschema_rs.ValidationError as error:
        raise Wrong(f"the answer does not fit its schema: {error.message}") from None
    return ""


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
        raise Untold("it did not think; where it cannot, write capabilities: {reasoning: false}")
    return f"{tokens} tokens" if tokens else ""


def replay(visit: Visit) -> str:
    """What it thought is taken back in the next turn, between a call and its result where it has tools."""
    asked = [{"role": "user", "content": tools.QUESTION}]
    request: Json = {"reasoning": {"effort": "low"}, "include": ["reasoning.encrypted_content"]}
    if visit.subject.capabilities.tools:
        request["tools"] = [tools.WEATHER]
    first = _whole(visit, input=asked, **request)
    thoughts = items(first, "reasoning")
    if not thoughts:
        raise Untold("it did not think, so that there is nothing to take back")
    followed = tools.answered(first)
    if not items(first, "function_call"):
        followed = [*followed, {"role": "user", "content": _SHORT}]
    _whole(visit, input=[*asked, *followed], **request)
    sealed = sum(bool(item.get("encrypted_content")) for item in thoughts)
    return f"{sealed} sealed" if sealed else ""


def errors(visit: Visit) -> str:
    """What its upstream refuses comes back as an error that says what is wrong."""
    try:
        visit.whole(model=visit.subject.stranger, input=_SHORT)
    except Refusal as refusal:
        told = f"an unknown model is answered with {refusal.status} {refusal.code}"
        hold(refusal.status is not None and 400 <= refusal.status < 500, told)
        hold(bool(refusal.error["message"]) and bool(refusal.error["type"]), "an error has no message or no type")
        return told
    raise Untold("it answers for every name of a model")


def cancel(visit: Visit) -> str:
    """Whoever leaves a stream frees the model for the next."""
    with visit.streaming(input=_LONGER) as (heard, events):
        for event in events:
            if str(event.get("type")).endswith(".delta"):
                break
        if not heard.events or not str(heard.events[-1].get("type")).endswith(".delta"):
            raise Untold("it was over before anybody could leave")
    hold(visit.settled(), "its engine is still at work for a client that left")
    check_response(visit.whole(input=_SHORT))
    return ""


def overflow(visit: Visit) -> str:
    """A prompt that does not fit is refused by that name."""
    window = visit.subject.capabilities.max_context_window
    if window is None:
        raise Untold("how much fits is not known: capabilities: {max_context_window: ...} says it")
    if window > _LONGEST_WINDOW:
        raise Untold(f"a prompt of more than {window} tokens is too dear to try")
    try:
        visit.whole(input="river " * (window + window // 10 + _LIMIT), max_output_tokens=_LIMIT)
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
    Check("tools", "Tools: call and result", tools.call_and_result, ("tools",)),
    Check(
        "tools_parallel",
        "Tools: several at once",
        tools.several_calls,
        ("tools", "parallel_tools"),
        "parallel_tool_calls",
    ),
    Check("tools_streamed", "Tools: streamed", tools.streamed_call, ("tools", "streaming")),
    Check("tools_forced", "Tools: forced", tools.forced_call, ("tools",), "tool_choice", may_lack=True),
    Check("json_schema", "JSON schema", json_schema, ("json_schema",)),
    Check("images", "Images", images, ("images",)),
    Check("reasoning", "Reasoning", reasoning, ("reasoning",), "reasoning"),
    Check("replay", "Reasoning, replayed", replay, ("reasoning",), "reasoning"),
    Check("errors", "Errors", errors),
    Check("cancel", "Cancel", cancel, ("streaming",)),
    Check("overflow", "Context overflow", overflow),
)
"""The first one comes first: where it cannot be answered at all, the others are not asked."""
