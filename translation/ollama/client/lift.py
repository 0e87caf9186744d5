"""Lifts requests of the chat and generate APIs to a `Turn`. Expects bodies that `schema` accepted."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from translation.errors import Unrepresentable
from translation.foreign_params import apply_foreign_params
from translation.lowering.closed_schemas import close_objects
from translation.ollama.client.ollama_history import lift_conversation, lift_images
from translation.ollama.client.schema import REQUEST_FIELDS, find_unknown_in_chat
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.turn import Turn
from translation.request_facts import RequestFacts

_OPTION_PARAMS: Final = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "seed")
"""Options that every API has under the same name."""

_OWN_OPTIONS: Final = frozenset({*_OPTION_PARAMS, "num_predict", "stop"})

_WHOLE_OPTIONS: Final = frozenset({"num_ctx", "num_keep", "num_predict", "repeat_last_n", "seed", "top_k"})
"""Options that are integers. Ollama leaves the fraction of other numbers out."""

_COMMON_NAMES: Final = {"repeat_penalty": "repetition_penalty"}
"""Option -> its name at other open-source servers, under which it is lowered."""

_UNSUPPORTED: Final = {
    "suffix": "text cannot be inserted before a suffix here: leave out 'suffix'",
    "template": "the model's own template is used: leave out 'template'",
    "raw": "prompts are sent as messages, and never without the model's template: leave out 'raw'",
    "context": "there are no contexts of tokens here: leave out 'context', and send the conversation to /api/chat",
}
"""Parameter of the generate API -> why it is refused. Leaving it out silently would change the answer."""


def lift_chat(body: Json, *, relayed: bool = False, model: str | None = None) -> Turn:
    """Returns the turn for a valid chat request. Its `losses` list everything that a turn cannot represent.

    `model` replaces the model that the body names. `relayed` only completes the signature: nothing of this API is
    relayed. Raises InvalidRequest for an image of an unknown type, and for a tool message without its call.
    """
    params = _present(body)
    losses: list[Loss] = []
    items = lift_conversation(params.get("messages") or (), losses)
    losses += [Loss(path, "dropped") for path in find_unknown_in_chat(params)]
    tools = tuple(_lift_tool(tool["function"]) for tool in params.get("tools") or ())
    return _build_turn(params, items, losses, model=model, tools=tools)


def lift_generate(body: Json, *, relayed: bool = False, model: str | None = None) -> Turn:
    """Returns the turn for a valid generate request: one message of the user.

    Raises InvalidRequest for an image of an unknown type, and Unrepresentable for a parameter that changes the answer
    and that only an upstream with the same API can follow.
    """
    params = _present(body)
    for name, reason in _UNSUPPORTED.items():
        if params.get(name):
            raise Unrepresentable(reason, param=name)
    images = lift_images(params.get("images") or (), "images")
    text = [{"type": "input_text", "text": params["prompt"]}] if params.get("prompt") else []
    items: list[Item] = [{"type": "message", "role": "user", "content": [*text, *images]}]
    return _build_turn(params, items, [], model=model, instructions=params.get("system") or None)


def _present(body: Json) -> Json:
    return {key: value for key, value in body.items() if value is not None}


def _build_turn(
    params: Json,
    items: Sequence[Item],
    losses: list[Loss],
    *,
    model: str | None,
    tools: Sequence[Json] = (),
    instructions: str | None = None,
) -> Turn:
    options = _present(params.get("options") or {})
    options |= {key: int(options[key]) for key in _WHOLE_OPTIONS & options.keys() if isinstance(options[key], float)}
    thinking, reasoning = _lift_think(params.get("think"))
    # The gateway never shortens a prompt.
    losses += [Loss(name, "dropped") for name in ("truncate", "shift") if params.get(name)]
    limit = options.get("num_predict", 0)
    turn = Turn(
        model=params["model"] if model is None else model,
        instructions=instructions,
        items=items,
        tools=tools,
        sampling=_lift_sampling(params, options),
        max_output_tokens=limit if limit > 0 else None,  # a limit that is not positive means no limit
        text_format=_lift_format(params.get("format")),
        reasoning=reasoning,
        thinking=thinking,
        stream=params.get("stream", True),
        extra=_lift_extra(params, options),
        losses=tuple(dict.fromkeys(losses)),
    )
    return apply_foreign_params(turn)


def _lift_think(think: bool | str | None) -> tuple[bool | None, Json | None]:
    """Returns (thinking, reasoning)."""
    return (None, {"effort": think}) if isinstance(think, str) else (think, None)


def _lift_sampling(params: Mapping[str, Any], options: Mapping[str, Any]) -> Json:
    sampling = {key: options[key] for key in _OPTION_PARAMS if key in options}
    if stop := options.get("stop"):
        sampling["stop"] = [stop] if isinstance(stop, str) else stop
    if params.get("logprobs"):
        sampling["logprobs"] = True
        if "top_logprobs" in params:
            sampling["top_logprobs"] = params["top_logprobs"]
    return sampling


def _lift_format(text_format: Any) -> Json | None:
    if not text_format:
        return None
    if text_format == "json":
        return {"type": "json_object"}
    closed = close_objects(text_format)
    return {"type": "json_schema", "name": "output", "schema": closed or text_format, "strict": closed is not None}


def _lift_extra(params: Mapping[str, Any], options: Mapping[str, Any]) -> Json:
    extra = {key: params[key] for key in params if key not in REQUEST_FIELDS}
    return extra | {_COMMON_NAMES.get(key, key): options[key] for key in options if key not in _OWN_OPTIONS}


def _lift_tool(function: Json) -> Json:
    # The API does not enforce the schemas of arguments.
    tool: Json = {"type": "function", "name": function["name"], "strict": False}
    tool["parameters"] = function.get("parameters") or {"type": "object", "properties": {}}
    if function.get("description"):
        tool["description"] = function["description"]
    return tool


def read_facts(body: Json) -> RequestFacts:
    """Returns the facts of a body. The route says whether the reply is a stream, because a stream is the default."""
    return RequestFacts(streams=bool(body.get("stream")))
