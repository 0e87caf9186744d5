"""Lifts a request of Gemini's API to a `Turn`. Expects a body that `schema.validate` accepted."""

from collections.abc import Mapping
from typing import Any, Final

from translation.errors import InvalidRequest, Unrepresentable
from translation.foreign_params import apply_foreign_params
from translation.gemini.client.gemini_history import lift_contents
from translation.gemini.client.json_schemas import lift_schema
from translation.gemini.client.tools import lift_calling_config, lift_declarations
from translation.gemini.client.value_replies import ENUM_TYPE, find_value_form, require_enum, wrap_value
from translation.gemini.schema.request import REQUEST_FIELDS, find_unknown_in_request
from translation.lowering.closed_schemas import close_objects
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.turn import Turn
from translation.request_facts import RequestFacts

_SAMPLING_KEYS: Final = {
    "temperature": "temperature",
    "topP": "top_p",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
    "seed": "seed",
    "responseLogprobs": "logprobs",
    "logprobs": "top_logprobs",
    "candidateCount": "n",
    "stopSequences": "stop",
}
"""The API's parameter in `generationConfig` -> the turn's."""

_SERVICE_TIERS: Final = {"standard": "default", "priority": "priority", "flex": "flex"}

_EFFORTS: Final = frozenset({"minimal", "low", "medium", "high", "xhigh"})

_UNSPECIFIED: Final = "thinking_level_unspecified"

_DYNAMIC_BUDGET: Final = -1


def lift(body: Json, *, relayed: bool = False, model: str | None = None) -> Turn:
    """Returns the turn for a valid body (see `schema.validate`). What a turn cannot represent is in its `losses`.

    `model` replaces the model that the body names. Requests are never `relayed`. Raises InvalidRequest for a history
    or a choice that makes no sense, and Unrepresentable for what only Google's servers have.
    """
    losses: list[Loss] = []
    config, tool_config = body.get("generationConfig") or {}, body.get("toolConfig") or {}
    _check_servers_only(body, config)
    thinking, reasoning = _lift_thinking(config.get("thinkingConfig") or {})
    turn = Turn(
        model=body["model"] if model is None else model,
        instructions=_lift_instruction(body.get("systemInstruction")),
        items=lift_contents(body["contents"], losses),
        tools=lift_declarations(body.get("tools") or (), tool_config, losses),
        tool_choice=lift_calling_config(tool_config, losses),
        sampling=_lift_sampling(body, config, losses),
        max_output_tokens=config.get("maxOutputTokens"),
        text_format=_lift_format(body, config),
        reasoning=reasoning,
        thinking=thinking,
        stream=body.get("stream", False),
        extra=_lift_extra(body, config, losses),
        losses=tuple(dict.fromkeys(losses)),
    )
    return apply_foreign_params(turn)


def _check_servers_only(body: Json, config: Json) -> None:
    """Raises Unrepresentable for parameters without which the answer would be another one."""
    if "cachedContent" in body:
        raise Unrepresentable(
            "nothing is cached here: send the content itself, and leave cachedContent out", param="cachedContent"
        )
    modalities = [str(each).upper() for each in config.get("responseModalities") or ()]
    if any(each not in ("TEXT", "MODALITY_UNSPECIFIED") for each in modalities):
        raise Unrepresentable(
            "the reply has texts and calls only: leave other modalities out",
            param="generationConfig.responseModalities",
        )
    if config.get("responseFormat"):
        raise Unrepresentable(
            "the form of a reply is in responseMimeType and its schema: leave responseFormat out",
            param="generationConfig.responseFormat",
        )


def _lift_instruction(instruction: Json | None) -> str | None:
    if instruction is None:
        return None
    for index, part in enumerate(instruction["parts"]):
        if "text" not in part:
            raise InvalidRequest("The system instruction has texts only.", param=f"systemInstruction.parts[{index}]")
    return "\n\n".join(part["text"] for part in instruction["parts"]) or None


def _lift_thinking(config: Mapping[str, Any]) -> tuple[bool | None, Json | None]:
    """Returns (thinking, reasoning) from `thinkingConfig`."""
    budget, level = config.get("thinkingBudget"), (config.get("thinkingLevel") or _UNSPECIFIED).lower()
    if budget == 0:
        return False, None
    # `auto` costs nothing where thoughts are readable anyway. OpenAI sends none without it.
    reasoning: Json = {"summary": "auto"} if config.get("includeThoughts") else {}
    if level != _UNSPECIFIED:
        if level not in _EFFORTS:
            raise InvalidRequest(
                f"Invalid value for 'generationConfig.thinkingConfig.thinkingLevel': {level!r:.100}.",
                param="generationConfig.thinkingConfig.thinkingLevel",
            )
        reasoning["effort"] = level
    if budget is not None and budget != _DYNAMIC_BUDGET:
        reasoning["max_tokens"] = budget
    return (None if budget is None else True), reasoning or None


def _lift_sampling(body: Json, config: Json, losses: list[Loss]) -> Json:
    sampling = {name: config[key] for key, name in _SAMPLING_KEYS.items() if config.get(key) not in (None, [])}
    if sampling.get("n") == 1:
        del sampling["n"]
    if find_value_form(body) is not None and sampling.pop("logprobs", None):
        # They would be those of an object that the client does not get.
        sampling.pop("top_logprobs", None)
        losses.append(Loss("generationConfig.responseLogprobs", "dropped"))
    if tier := body.get("serviceTier"):
        known = _SERVICE_TIERS.get(tier.lower().removeprefix("service_tier_"))
        if known is None:
            losses.append(Loss("serviceTier", "dropped"))
        else:
            sampling["service_tier"] = known
    return sampling


def _lift_format(body: Json, config: Json) -> Json | None:
    kind = config.get("responseMimeType") or "text/plain"
    if kind == "text/plain":
        return None
    if kind not in ("application/json", ENUM_TYPE):
        raise Unrepresentable(
            f"replies have the type text/plain, application/json or {ENUM_TYPE} here, not {kind!r:.100}",
            param="generationConfig.responseMimeType",
        )
    schema = config.get("responseJsonSchema")
    if schema is None and "responseSchema" in config:
        schema = lift_schema(config["responseSchema"])
    if kind == ENUM_TYPE:
        require_enum(schema)
    if schema is None:
        return {"type": "json_object"}
    if find_value_form(body) is not None:
        schema = wrap_value(schema)
    # Upstreams that refuse an open schema with `strict` follow it without.
    closed = close_objects(schema)
    return {"type": "json_schema", "name": "output", "schema": closed or schema, "strict": closed is not None}


def _lift_extra(body: Json, config: Json, losses: list[Loss]) -> Json:
    extra = {key: value for key, value in body.items() if key not in REQUEST_FIELDS and value is not None}
    if body.get("safetySettings"):
        extra["safetySettings"] = body["safetySettings"]
    if "topK" in config:
        extra["top_k"] = int(config["topK"])
    losses += [Loss(key, "dropped") for key in ("labels", "store") if body.get(key)]
    if config.get("mediaResolution"):
        losses.append(Loss("generationConfig.mediaResolution", "dropped"))
    losses += [Loss(path, "dropped") for path in find_unknown_in_request(body)]
    return extra


def read_facts(body: Json) -> RequestFacts:
    """Returns the facts of a normalized body. The route says whether the reply is a stream."""
    return RequestFacts(streams=bool(body.get("stream")))
