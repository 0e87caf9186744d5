"""Lifts a Responses request to a `Turn`. Expects a body that `schema.request.validate` accepted."""

from collections.abc import Iterator
from typing import Any

from translation.errors import InvalidRequest, Unrepresentable
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.turn import SHARED_PARAMS, Turn
from translation.responses import input_items
from translation.responses.client.item_view import GATEWAY_REPORT, HIDING_INCLUDES
from translation.responses.schema.request import REQUEST_FIELDS, find_unknown_in_request

_LOGPROBS = "message.output_text.logprobs"

_REASONING_KEYS = ("effort", "summary", "max_tokens")

_STATE_REFUSALS = {
    "conversation": "Conversations are not stored here: send the whole history in 'input'.",
    "prompt": "There is no such prompt here: create it with POST /v1/prompts, which needs a store, or send its text in "
    "'instructions' and 'input'.",
    "background": "Responses are not stored here, so none can be fetched later: leave out 'background'.",
    "resumable": "Streams are not stored here, so none can be resumed: leave out 'resumable'.",
    "moderation": "Moderation is not available here: leave out 'moderation'.",
}
"""Parameters that need stored state or a further service -> the error message for a request that has them."""

_STATE_PARAMS = frozenset({"previous_response_id", *_STATE_REFUSALS})
"""Parameters that `_refuse_state` examines."""

_COPIED_PARAMS = frozenset({"instructions", "tool_choice", "parallel_tool_calls", "max_output_tokens", "thinking"})
"""Parameters that are copied to the turn's field of the same name."""

_SAMPLING_PARAMS = (SHARED_PARAMS | {"stop"}) - {"store"}
"""Parameters that `_sampling` examines, besides `store`, which alone asks an upstream for nothing if it is false."""

_REPLY_PARAMS = frozenset({"text", "reasoning", "include"})
"""Parameters that `_set_reply_params` examines."""

_DROPPED_PARAMS = ("image", "access_programs", "prompt_cache_options", "max_tool_calls", "tool_events", "elicitation")
"""Parameters that tune how a reply is made and do not change its meaning. They are sent to no upstream."""

_IGNORED_REASONING = {"context": "auto", "mode": "standard"}
"""Keys of `reasoning` that are sent to no upstream -> the value that is the default, so that dropping it is no loss."""

_PLAIN_PARAMS = frozenset({"model", "input", "stream", "tools", "store", "stream_options", "truncation"})
"""Parameters that set no fields of the turn but its model, items, tools and stream; `store` only if it is true."""

_LOSSY_PARAMS = frozenset({*_DROPPED_PARAMS, "include", "reasoning", "top_logprobs"})
"""Parameters that `_losses` examines."""

_SEALED_REASONING = "reasoning.encrypted_content"

_LOSSLESS_INCLUDES = frozenset({_SEALED_REASONING, _LOGPROBS, GATEWAY_REPORT})
"""Values of `include` whose absence is no loss or that the turn represents. Codex always sends the first, and only
returns the encrypted content in its next turn."""


def lift(body: Json, *, relayed: bool = False, model: str | None = None) -> Turn:
    """Returns the turn for a body that passed `validate`. What a turn cannot represent is in its `losses`.

    `model` replaces the model that the body names. Raises InvalidRequest for what needs stored state or a further
    service: `previous_response_id`, `conversation`, `prompt`, `background`, `resumable`, `moderation` and references to
    items. `relayed` says that the body itself is forwarded and the turn only serves to check it. Then only a background
    response without `stream` is refused, because the client would fetch it from the gateway.
    """
    if not relayed:
        if not _STATE_PARAMS.isdisjoint(body):
            _refuse_state(body)
    elif body.get("background") and not body.get("stream"):
        raise Unrepresentable(_STATE_REFUSALS["background"], param="background")
    unread: list[Loss] = []
    items, tools = input_items.expand_input(
        body.get("input") or [], body.get("tools") or (), allow_references=relayed, losses=unread
    )
    # A call with sixteen keywords would take a third of the time to lift a plain request.
    turn = Turn(body["model"] if model is None else model, items)
    turn.tools = tools
    turn.stream = bool(body.get("stream"))
    turn.losses = unread
    if not _PLAIN_PARAMS.issuperset(body) or body.get("store"):
        _set_params(turn, body)
    if not relayed and (unknown_keys := find_unknown_in_request(body)):
        turn.unknown_keys = unknown_keys
    return turn


def _set_params(turn: Turn, body: Json) -> None:
    """Sets the fields of the turn for parameters that many requests do not have, and adds their losses."""
    if not _SAMPLING_PARAMS.isdisjoint(body) or body.get("store"):
        turn.sampling = _sampling(body)
    for name in _COPIED_PARAMS.intersection(body):
        setattr(turn, name, body[name])
    if not _REPLY_PARAMS.isdisjoint(body):
        _set_reply_params(turn, body)
    if not REQUEST_FIELDS.issuperset(body):
        turn.extra = list_extra_params(body)
    if not _LOSSY_PARAMS.isdisjoint(body):
        turn.losses = [*turn.losses, *_losses(body)]


def _set_reply_params(turn: Turn, body: Json) -> None:
    """Sets the fields of the turn for the parameters that say what is in the reply."""
    if text := body.get("text"):
        text_format = text.get("format")
        turn.text_format = None if text_format is None or text_format["type"] == "text" else text_format
        turn.verbosity = text.get("verbosity")
    if reasoning := body.get("reasoning"):
        turn.reasoning = _reasoning(reasoning)
    if included := body.get("include"):
        turn.sealed_reasoning = _SEALED_REASONING in included
        if not HIDING_INCLUDES.isdisjoint(included):
            turn.upstream_losses = [
                _loss_of_include(position) for position, value in enumerate(included) if value in HIDING_INCLUDES
            ]
        if requests_logprobs(body):
            top = body.get("top_logprobs")
            turn.sampling = {**turn.sampling, "logprobs": True, **({} if top is None else {"top_logprobs": top})}


def requests_logprobs(body: Json) -> bool:
    """Returns whether a request asks for the log probabilities of texts."""
    return _LOGPROBS in (body.get("include") or ())


def _refuse_state(body: Json) -> None:
    if (previous := body.get("previous_response_id")) is not None:
        raise InvalidRequest(
            f"Previous response with id '{previous:.80}' not found: responses are not stored here.",
            param="previous_response_id",
            code="previous_response_not_found",
        )
    for param, message in _STATE_REFUSALS.items():
        if body.get(param):
            raise Unrepresentable(message, param=param)


def list_extra_params(body: Json) -> Json:
    """Returns the parameters of a body that the API does not have."""
    return {key: value for key, value in body.items() if key not in REQUEST_FIELDS and value is not None}


def _sampling(body: Json) -> dict[str, Any]:
    sampling = {key: body[key] for key in filter(SHARED_PARAMS.__contains__, body) if body[key] is not None}
    if stop := body.get("stop"):
        sampling["stop"] = [stop] if isinstance(stop, str) else stop
    return sampling


def _reasoning(options: Json) -> Json | None:
    reasoning = {key: options[key] for key in _REASONING_KEYS if options.get(key) is not None}
    if "summary" not in reasoning and (older := options.get("generate_summary")) is not None:
        reasoning["summary"] = older
    return reasoning or None


def _loss_of_include(position: int) -> Loss:
    return Loss(f"include[{position}]", "dropped")


def _losses(body: Json) -> Iterator[Loss]:
    for param in _DROPPED_PARAMS:
        if body.get(param):
            yield Loss(param, "dropped")
    for position, value in enumerate(body.get("include") or ()):
        if value not in _LOSSLESS_INCLUDES:
            yield _loss_of_include(position)
    for name, default in _IGNORED_REASONING.items():
        if ((body.get("reasoning") or {}).get(name) or default) != default:
            yield Loss(f"reasoning.{name}", "dropped")
    if body.get("top_logprobs") and not requests_logprobs(body):
        yield Loss("top_logprobs", "not included")
