"""Checks over the Responses API. `check_list.py` lists them."""

from typing import Final

from gateway.doctor.checks import tool_probes
from gateway.doctor.checks.check_session import CheckSession
from gateway.doctor.checks.event_order import check_order
from gateway.doctor.checks.expectations import (
    COUNT_PROMPT,
    GREETING_PROMPT,
    LONG_COUNT_PROMPT,
    SAMPLE_IMAGE_COLOUR,
    SAMPLE_IMAGE_URL,
    STOP_PROMPT,
    STOP_SEQUENCE,
    SUM_FORMAT,
    SUM_PROMPT,
    TOKEN_LIMIT,
    verify_stop,
    verify_sum_format,
    verify_token_limit,
)
from gateway.doctor.checks.response_validation import (
    check_response,
    check_usage,
    items_of_type,
    message_text_of,
    require_text,
)
from gateway.doctor.checks.verdicts import CheckFailed, Inconclusive, RequestFailed, require
from translation.representation.json_types import Json

_MAX_PROBED_WINDOW: Final = 300_000
"""The largest context window, in tokens, that is probed. Overflowing a larger one would cost too much."""


_MAX_EXCERPT_CHARS: Final = 60


def probe_text(session: CheckSession) -> str:
    """Checks a whole response."""
    require_text(_create_response(session, input=GREETING_PROMPT))
    return ""


def probe_streaming(session: CheckSession) -> str:
    """Checks a stream: every event is in order, deltas add up to their texts, and there is one end."""
    received = session.stream_response(input=GREETING_PROMPT)
    check_order(received.events, done=received.is_done)
    require_text(check_response(received.response))
    return f"{len(received.events)} events"


def probe_usage(session: CheckSession) -> str:
    """Checks that tokens are counted, in a whole response and at the end of a stream."""
    usage = check_usage(_create_response(session, input=GREETING_PROMPT).get("usage"))
    if session.subject.capabilities.streaming:
        check_usage(session.stream_response(input=GREETING_PROMPT).response.get("usage"))
    return f"{usage['input_tokens']} in, {usage['output_tokens']} out"


def probe_length(session: CheckSession) -> str:
    """Checks that a response that is cut off is incomplete, with the right reason."""
    prompts = (COUNT_PROMPT, LONG_COUNT_PROMPT)
    return verify_token_limit(
        _create_response(session, input=prompt, max_output_tokens=TOKEN_LIMIT) for prompt in prompts
    )


def probe_stop(session: CheckSession) -> str:
    """Checks that a stop sequence ends the answer and is not part of it."""
    return verify_stop(
        _create_response(session, input=STOP_PROMPT, stop=[STOP_SEQUENCE]),
        lambda: _create_response(session, input=STOP_PROMPT),
    )


def probe_json_schema(session: CheckSession) -> str:
    """Checks that the answer fits its JSON schema."""
    return verify_sum_format(
        _create_response(session, input=SUM_PROMPT, text={"format": {"type": "json_schema", **SUM_FORMAT}})
    )


def probe_images(session: CheckSession) -> str:
    """Checks that the model sees an image in the input.

    Raises Inconclusive if the answer does not name its colour: some servers discard images without an error, and a
    model may also be too small to answer.
    """
    parts = [
        {"type": "input_text", "text": "Which colour is this image? Reply with one word."},
        {"type": "input_image", "image_url": SAMPLE_IMAGE_URL, "detail": "auto"},
    ]
    response = _create_response(session, input=[{"role": "user", "content": parts}])
    answer = require_text(response)
    if SAMPLE_IMAGE_COLOUR not in answer.lower():
        excerpt = " ".join(answer.split())[:_MAX_EXCERPT_CHARS]
        raise Inconclusive(
            f"the image was accepted, but it is {SAMPLE_IMAGE_COLOUR} and the answer is {excerpt!r}: it does not show "
            "whether the model saw the image"
        )
    return ""


def probe_reasoning(session: CheckSession) -> str:
    """Checks that the model reasons on request, separately from its answer."""
    response = _create_response(session, input="What is 3 + 4?", reasoning={"effort": "low"})
    message_text_of(response)
    tokens = ((response.get("usage") or {}).get("output_tokens_details") or {}).get("reasoning_tokens")
    if not items_of_type(response, "reasoning") and not tokens:
        loss = next((loss for loss in session.losses if loss.startswith("reasoning=")), None)
        reason = f"it was not asked to think; the reply reports a loss: {loss}"
        raise Inconclusive(reason if loss else "it did not think; if it cannot, write capabilities: {reasoning: false}")
    return f"{tokens} tokens" if tokens else ""


def probe_reasoning_replay(session: CheckSession) -> str:
    """Checks that reasoning is accepted as input of the next turn: between a call and its result if it has tools."""
    question = [{"role": "user", "content": tool_probes.WEATHER_PROMPT}]
    request: Json = {"reasoning": {"effort": "low"}, "include": ["reasoning.encrypted_content"]}
    if session.subject.capabilities.tools:
        request["tools"] = [tool_probes.WEATHER_TOOL]
    first = _create_response(session, input=question, **request)
    reasoning_items = items_of_type(first, "reasoning")
    if not reasoning_items:
        raise Inconclusive("it did not think, so there is no reasoning to send back")
    next_input = tool_probes.continue_with_results(first)
    if not items_of_type(first, "function_call"):
        next_input = [*next_input, {"role": "user", "content": GREETING_PROMPT}]
    _create_response(session, input=[*question, *next_input], **request)
    sealed_count = sum(bool(item.get("encrypted_content")) for item in reasoning_items)
    return f"{sealed_count} sealed" if sealed_count else ""


def probe_errors(session: CheckSession) -> str:
    """Checks that a refusal of the upstream is returned as an error with a message and a type."""
    try:
        session.create_response(model=session.subject.unknown_model, input=GREETING_PROMPT)
    except RequestFailed as refusal:
        remark = f"an unknown model is answered with {refusal.status} {refusal.code}"
        require(refusal.status is not None and 400 <= refusal.status < 500, remark)
        require(bool(refusal.error["message"]) and bool(refusal.error["type"]), "an error has no message or no type")
        return remark
    raise Inconclusive("the upstream accepts every model name")


def probe_cancel(session: CheckSession) -> str:
    """Checks that the model is free for the next request after a client has disconnected from a stream."""
    with session.open_response_stream(input=LONG_COUNT_PROMPT) as (received, events):
        for event in events:
            if str(event.get("type")).endswith(".delta"):
                break
        if not received.events or not str(received.events[-1].get("type")).endswith(".delta"):
            raise Inconclusive("the stream ended before the client could disconnect")
    require(session.wait_until_idle(), "its engine still works for a client that has disconnected")
    check_response(session.create_response(input=GREETING_PROMPT))
    return ""


def probe_overflow(session: CheckSession) -> str:
    """Checks that a prompt beyond the context window is refused with the code `context_length_exceeded`."""
    window = session.subject.capabilities.max_context_window
    if window is None:
        raise Inconclusive("the context window is unknown: write capabilities: {max_context_window: ...}")
    if window > _MAX_PROBED_WINDOW:
        raise Inconclusive(f"a prompt of more than {window} tokens is too expensive to try")
    try:
        session.create_response(input="river " * (window + window // 10 + TOKEN_LIMIT), max_output_tokens=TOKEN_LIMIT)
    except RequestFailed as refusal:
        require(refusal.code == "context_length_exceeded", f"it is refused with {refusal}")
        return f"at {window} tokens"
    raise CheckFailed(f"it accepts a prompt of more than {window} tokens, which is its context window")


def _create_response(session: CheckSession, **body: object) -> Json:
    return check_response(session.create_response(**body))
