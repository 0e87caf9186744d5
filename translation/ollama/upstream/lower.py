"""Lowers a turn to a request body of Ollama's chat API. https://github.com/ollama/ollama/blob/main/docs/api.md"""

from collections.abc import Mapping
from typing import Final

from translation.errors import InvalidRequest, Unrepresentable
from translation.ollama.upstream.lower_items import lower_items
from translation.ollama.upstream.lower_tools import lower_tools
from translation.ollama.upstream.options import lower_options
from translation.ollama.upstream.thinking import lower_thinking
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import LoweredRequest, Turn

TURN_PARAMS: Final[Mapping[str, str]] = {
    "messages": "input",
    "format": "text.format",
    "think": "thinking",
    "options.num_predict": "max_output_tokens",
    **{f"options.{name}": name for name in ("frequency_penalty", "presence_penalty", "seed", "stop")},
    **{f"options.{name}": name for name in ("temperature", "top_k", "top_p", "min_p")},
}
"""Parameter of an Ollama request -> the turn's. All others have the same name."""

_NO_TRUNCATION: Final[Json] = {"truncate": False, "shift": False}
"""By default Ollama silently removes the beginning of a prompt that does not fit its context. With these it refuses a
prompt that is too long, and ends a reply that becomes too long. Old servers ignore both keys."""


def lower(turn: Turn, profile: Profile) -> LoweredRequest:
    """Returns the body for `POST /api/chat`.

    Raises InvalidRequest for a history or a tool that the API does not accept (a call without its output, a name with a
    space), and Unrepresentable for what it cannot represent. Nulls and empty `tools` are never sent. The returned
    `losses` are those of this step only: losses of lifting are in `turn.losses`.
    """
    losses: list[Loss] = []
    messages = lower_items(turn, profile, losses)
    if not messages:
        raise InvalidRequest("The input is empty: send at least one message.", param="input")
    body: Json = {"model": turn.model, "messages": messages, "stream": turn.stream, **_NO_TRUNCATION}
    tools = lower_tools(turn, profile, losses)
    if tools:
        body["tools"] = tools
    if turn.text_format is not None:
        body |= _lower_format(turn.text_format, losses, beside_tools=bool(tools))
    body |= lower_thinking(turn, profile, losses)
    body |= lower_options(turn, profile, losses)
    if turn.verbosity is not None:
        losses.append(Loss("text.verbosity", "dropped"))
    return LoweredRequest(body, tuple(dict.fromkeys(losses)))


def _lower_format(text_format: Json, losses: list[Loss], *, beside_tools: bool) -> Json:
    kind = text_format.get("type")
    if kind == "text":
        return {}
    if kind not in ("json_object", "json_schema"):
        raise Unrepresentable(f"this model's API has no text format of type {kind!r}", param="text.format.type")
    if beside_tools:
        # Ollama applies the schema to all of the output, so the model could make no call.
        message = (
            "this model does not support tools together with text.format: leave out one, or set tool_choice to none"
        )
        raise Unrepresentable(message, param="text.format")
    schema = text_format.get("schema")
    if kind == "json_object" or schema is None:
        return {"format": "json"}  # chat's schema is optional
    if text_format.get("description"):
        losses.append(Loss("text.format.description", "dropped"))
    return {"format": schema}
