"""Lowers a turn to the request body of `generateContent`, and builds the paths of Gemini's requests."""

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from translation.errors import InvalidRequest, Unrepresentable
from translation.gemini.upstream.contents import ensure_user_first, lower_items
from translation.gemini.upstream.families import GeminiFamily, family_of
from translation.gemini.upstream.json_schemas import reduce_schema
from translation.gemini.upstream.thinking import lower_thinking
from translation.gemini.upstream.tools import lower_tools
from translation.lowering.unsupported import find_unknown_key_losses
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import SERVICE_PARAMS, LoweredRequest, Turn

_CONFIG_PARAMS: Final[Mapping[str, str]] = {
    "maxOutputTokens": "max_output_tokens",
    "temperature": "temperature",
    "topP": "top_p",
    "topK": "top_k",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
    "seed": "seed",
    "stopSequences": "stop",
    "responseLogprobs": "logprobs",
    "logprobs": "top_logprobs",
    "thinkingConfig": "reasoning",
    "thinkingConfig.thinkingLevel": "reasoning.effort",
    "thinkingConfig.thinkingBudget": "reasoning.max_tokens",
    "responseMimeType": "text.format",
    "responseSchema": "text.format",
    "responseJsonSchema": "text.format",
}

TURN_PARAMS: Final[Mapping[str, str]] = {
    "contents": "input",
    "systemInstruction": "instructions",
    "system_instruction": "instructions",
    "toolConfig": "tool_choice",
    **{f"generationConfig.{key}": name for key, name in _CONFIG_PARAMS.items()},
}
"""Parameter of a request of Gemini's API -> the turn's. All others have the same name."""

_SAMPLING_KEYS: Final = {
    "temperature": "temperature",
    "top_p": "topP",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
    "seed": "seed",
    "stop": "stopSequences",
}
"""The turn's sampling parameter -> Gemini's, in `generationConfig`."""

_PENALTIES: Final = ("presence_penalty", "frequency_penalty")

_DROPPED_PARAMS: Final = (*SERVICE_PARAMS, "store")
"""Parameters that Gemini does not have. Without them the meaning of the reply is the same."""

_EXTRA_KEYS: Final = {
    "cached_content": "cachedContent",
    "cachedContent": "cachedContent",
    "safety_settings": "safetySettings",
    "safetySettings": "safetySettings",
}
"""Gemini's own parameters, in both spellings of its SDKs -> their key in the body."""

_COLLECTION_NAME: Final = re.compile(r"([A-Za-z]+)/([^/]+)")

_COUNTED_KEYS: Final = ("systemInstruction", "contents", "tools", "toolConfig", "cachedContent")


def lower(turn: Turn, profile: Profile) -> LoweredRequest:
    """Returns the request body for a turn. The model and the choice of streaming are in the path, see `path_of`.

    Raises InvalidRequest for a history or a tool that Gemini does not accept, and Unrepresentable for what it cannot
    represent. The returned `losses` are those of this step only: losses of lifting are in `turn.losses`.
    """
    losses: list[Loss] = []
    family = family_of(turn.model)
    leading, contents = lower_items(turn, profile, family, losses)
    if not contents:
        raise InvalidRequest("The input is empty: send at least one message.", param="input")
    body: Json = {"contents": ensure_user_first(contents, losses)}
    if system := "\n\n".join(filter(None, (turn.instructions, leading))):
        body["systemInstruction"] = {"parts": [{"text": system}]}
    body |= lower_tools(turn.tools, turn.tool_choice, turn.parallel_tool_calls, losses)
    config = _lower_sampling(turn.sampling, family, losses)
    if turn.max_output_tokens is not None:
        config["maxOutputTokens"] = turn.max_output_tokens
    if turn.text_format is not None:
        config |= _lower_format(turn.text_format, family, body, losses)
    if turn.verbosity is not None:
        losses.append(Loss("text.verbosity", "dropped"))
    if thinking := lower_thinking(turn, family, profile, losses):
        config["thinkingConfig"] = thinking
    _add_extra(body, config, turn.extra, profile, losses)
    losses += find_unknown_key_losses(turn.unknown_keys)
    if config:
        body["generationConfig"] = config
    return LoweredRequest(body, tuple(dict.fromkeys(losses)))


def path_of(turn: Turn) -> str:
    """Returns the path of a turn's request, below the base URL."""
    verb = "streamGenerateContent?alt=sse" if turn.stream else "generateContent"
    return f"{_model_path(turn)}:{verb}"


def build_count_request(turn: Turn, profile: Profile) -> tuple[str, Json, str]:
    """Returns path and body of the request that counts a turn's input tokens, and the key of the count in its reply.

    Raises what `lower` raises.
    """
    path = _model_path(turn)
    body = lower(turn, profile).body
    fields = {key: body[key] for key in _COUNTED_KEYS if key in body}
    return f"{path}:countTokens", {"generateContentRequest": {"model": path[1:], **fields}}, "totalTokens"


def parse_model_names(reply: Json) -> list[str] | None:
    """Returns the names of the models in a reply of `GET /models` that generate content, `None` if it has no list."""
    rows = reply.get("models")
    if not isinstance(rows, list):
        return None
    models = [row for row in rows if isinstance(row, dict) and isinstance(row.get("name"), str)]
    return [row["name"].removeprefix("models/") for row in models if _can_generate(row)]


def _can_generate(row: Json) -> bool:
    methods = row.get("supportedGenerationMethods")
    return not isinstance(methods, list) or "generateContent" in methods


def _model_path(turn: Turn) -> str:
    """Returns the path of a model. A name may contain its collection: `tunedModels/mine`.

    Everything else is quoted, because the name comes from the client.
    """
    match = _COLLECTION_NAME.fullmatch(turn.model)
    collection, name = match.groups() if match else ("models", turn.model)
    return f"/{collection}/{quote(name, safe='')}"


def _lower_sampling(sampling: Mapping[str, Any], family: GeminiFamily, losses: list[Loss]) -> Json:
    if (sampling.get("n") or 1) != 1:
        raise Unrepresentable("this model answers with one choice at a time: leave out 'n'", param="n")
    if sampling.get("logit_bias"):
        raise Unrepresentable("this model's API has no token biases: leave out 'logit_bias'", param="logit_bias")
    refused = () if family.accepts_penalties else tuple(filter(sampling.get, _PENALTIES))
    sent = {name: key for name, key in _SAMPLING_KEYS.items() if name not in refused}
    config = {key: sampling[name] for name, key in sent.items() if sampling.get(name) is not None}
    losses += [Loss(name, "dropped") for name in (*refused, *_DROPPED_PARAMS) if sampling.get(name)]
    top_logprobs = sampling.get("top_logprobs")
    if sampling.get("logprobs") or top_logprobs:
        config["responseLogprobs"] = True
        if top_logprobs is not None:
            config["logprobs"] = top_logprobs
    return config


def _lower_format(text_format: Json, family: GeminiFamily, body: Json, losses: list[Loss]) -> Json:
    kind = text_format.get("type")
    if kind == "text":
        return {}
    if kind not in ("json_object", "json_schema"):
        raise Unrepresentable(f"this model's API has no text format of type {kind!r}", param="text.format.type")
    if "tools" in body and not family.allows_schema_with_tools:
        mode = body.get("toolConfig", {}).get("functionCallingConfig", {}).get("mode")
        if mode == "ANY":
            losses.append(Loss("text.format", "dropped"))  # the reply will be a call
            return {}
        if mode != "NONE":
            raise Unrepresentable(
                "this model does not support tools together with text.format: leave out one of them",
                param="text.format",
            )
        del body["tools"], body["toolConfig"]
        losses.append(Loss("tools", "dropped"))
    config: Json = {"responseMimeType": "application/json"}
    if text_format.get("description"):
        losses.append(Loss("text.format.description", "dropped"))
    if kind == "json_schema" and (schema := text_format.get("schema")) is not None:  # chat's schema is optional
        config["responseJsonSchema"] = reduce_schema(schema, "text.format.schema", losses)
    return config


def _add_extra(body: Json, config: Json, extra: Mapping[str, Any], profile: Profile, losses: list[Loss]) -> None:
    for key, value in extra.items():
        if value is None:
            continue
        if key not in profile.extra_params:
            losses.append(Loss(key, "dropped"))
        elif key == "top_k":
            config["topK"] = value
        elif (body_key := _EXTRA_KEYS.get(key, key)) in body:
            losses.append(Loss(key, "dropped"))
        else:
            body[body_key] = value
