"""The shape of requests of Gemini's API, as typed dictionaries that pydantic validates.

`normalize` gives a body the spelling that they expect. Unknown keys are no errors: they become losses.
https://ai.google.dev/api/generate-content
"""

from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, Final, Required, TypeAlias, get_args

from pydantic import Field
from typing_extensions import TypedDict

from translation.errors import InvalidRequest, Unrepresentable
from translation.gemini.schema.contents import Instruction, PartKind, TurnContent
from translation.gemini.schema.spelling import Spelling
from translation.gemini.schema.tools import OpenApiSchema, Tool, ToolConfig
from translation.representation.json_types import Json
from translation.unknown_fields import UnknownFields
from translation.validation import Name, Penalty, build_adapter, check_body

_PART_KINDS: Final = frozenset(get_args(PartKind))
_DYNAMIC_BUDGET: Final = -1
_JSON_TYPES: Final = frozenset({"application/json", "text/x.enum"})

_AtLeastOne: TypeAlias = Annotated[int, Field(ge=1)]
_Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]

_MODEL_PREFIX: Final = "models/"


class ThinkingConfig(TypedDict, total=False):
    includeThoughts: bool
    thinkingBudget: Annotated[int, Field(ge=_DYNAMIC_BUDGET)]
    thinkingLevel: str


class GenerationConfig(TypedDict, total=False):
    temperature: Annotated[float, Field(ge=0, le=2)]
    topP: _Share
    topK: Annotated[float, Field(ge=-1)]
    maxOutputTokens: _AtLeastOne
    stopSequences: list[str]
    candidateCount: _AtLeastOne
    seed: int
    presencePenalty: Penalty
    frequencyPenalty: Penalty
    responseLogprobs: bool
    logprobs: Annotated[int, Field(ge=0, le=20)]
    responseMimeType: str
    responseSchema: OpenApiSchema
    responseJsonSchema: Json
    thinkingConfig: ThinkingConfig
    responseModalities: list[str]
    responseFormat: Any
    mediaResolution: str


class InputParams(TypedDict, total=False):
    """The fields that make up the input, in requests for an answer and in requests to count tokens."""

    model: Required[str]
    contents: Required[Annotated[list[TurnContent], Field(fail_fast=True), Field(min_length=1)]]
    systemInstruction: Instruction
    tools: Annotated[list[Tool], Field(fail_fast=True)]
    toolConfig: ToolConfig
    generationConfig: GenerationConfig


class Request(InputParams, total=False):
    stream: bool
    cachedContent: Name
    labels: dict[str, str]
    safetySettings: list[Json]
    serviceTier: str
    store: bool


REQUEST_FIELDS: Final = frozenset({*InputParams.__annotations__, *Request.__annotations__})
"""Every top-level key that the endpoint knows. `model` and `stream` are in the path of a request."""


def normalize(body: Json) -> Json:
    """Returns a body whose known fields have the spelling of the schema.

    The API takes `snake_case` for `camelCase`, one object for a list of one, and null for an omitted field. Its SDKs
    take a text for a content. The client's own data (arguments, results, JSON schemas) stays unchanged.
    """
    normalized: Json = _spelling().normalize(body)
    return normalized


def validate(body: Json) -> None:
    """Raises InvalidRequest for the first field of a normalized body that is malformed."""
    check_body(_REQUEST_ADAPTER, body)
    check_parts(body)
    _check_config(body.get("generationConfig") or {})


def check_parts(body: Json) -> None:
    """Raises InvalidRequest for a part that has no kind or several, and Unrepresentable for a kind that is unknown."""
    for param, part in _list_parts(body):
        kinds = [key for key in part if key in _PART_KINDS]
        if len(kinds) > 1:
            raise InvalidRequest(f"'{param}' has {' and '.join(kinds)}: send a part for each.", param=param)
        if not kinds and "thoughtSignature" not in part:
            unknown = next(iter(part), None)
            if unknown is None:
                raise InvalidRequest(f"'{param}' is empty: a part needs a text or other data.", param=param)
            raise Unrepresentable(f"parts with {unknown!r:.100} are not known here: leave it out", param=param)


def _list_parts(body: Json) -> Iterator[tuple[str, Json]]:
    for index, content in enumerate(body["contents"]):
        for position, part in enumerate(content["parts"]):
            yield f"contents[{index}].parts[{position}]", part
    for position, part in enumerate((body.get("systemInstruction") or {}).get("parts", ())):
        yield f"systemInstruction.parts[{position}]", part


def _check_config(config: Json) -> None:
    top_k = config.get("topK")
    if top_k is not None and top_k != int(top_k):
        raise InvalidRequest(
            "Invalid type for 'generationConfig.topK': expected an integer, but got a decimal number instead.",
            param="generationConfig.topK",
            code="invalid_type",
        )
    for name in ("responseSchema", "responseJsonSchema"):
        if name in config and config.get("responseMimeType") not in _JSON_TYPES:
            raise InvalidRequest(
                f"'generationConfig.{name}' needs 'generationConfig.responseMimeType': 'application/json'.",
                param="generationConfig.responseMimeType",
            )
    if "responseSchema" in config and "responseJsonSchema" in config:
        raise InvalidRequest(
            "Send 'generationConfig.responseSchema' or 'generationConfig.responseJsonSchema', not both.",
            param="generationConfig.responseJsonSchema",
        )
    thinking: Json = config.get("thinkingConfig") or {}
    if "thinkingBudget" in thinking and "thinkingLevel" in thinking:
        raise InvalidRequest(
            "Send 'thinkingBudget' or 'thinkingLevel', not both.", param="generationConfig.thinkingConfig"
        )


_REQUEST_ADAPTER: Final = build_adapter(Request)
"""Built at import, because building it while the first request waits takes too long."""


@cache
def _spelling() -> Spelling:
    return Spelling(Request, texts={TurnContent: content_of, Instruction: content_of})


@cache
def _unknown_fields() -> UnknownFields:
    return UnknownFields(Request)


def find_unknown_in_request(body: Json) -> list[str]:
    """Returns the paths of keys inside a valid body that the schema does not have, except its own keys."""
    return _unknown_fields().find(body)


def content_of(text: str) -> Any:
    """Returns the content that a text stands for."""
    return {"parts": [{"text": text}]}


@cache
def _request_schema() -> Json:
    return {"$id": "generate-content", **_REQUEST_ADAPTER.json_schema()}


REQUEST_SCHEMA = _request_schema
"""Returns the JSON schema of a request, for `/openapi.json`. It is built at the first call."""


def require_path_model(named: object, model: str, param: str) -> None:
    """Raises InvalidRequest if a body names another model than `model`, that of the path. None names no model."""
    if named is None:
        return
    if not isinstance(named, str) or named.removeprefix(_MODEL_PREFIX) != model.removeprefix(_MODEL_PREFIX):
        raise InvalidRequest(
            f"The model of the request, '{named!s:.100}', is not that of the path, '{model:.100}'.", param=param
        )
