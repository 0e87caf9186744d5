"""The shape of a Chat Completions request, as typed dictionaries that pydantic validates.

Unknown keys are no errors, because upstreams have parameters of their own.
"""

from collections.abc import Iterable
from functools import cache
from typing import Annotated, Final, Literal, Required

from pydantic import Field, Tag
from typing_extensions import TypedDict

from translation.chat.reasoning import REASONING_TEXT_FIELDS
from translation.errors import InvalidRequest
from translation.lenient_validation import LenientSchema
from translation.representation.json_types import Json
from translation.unknown_fields import UnknownFields
from translation.validation import Metadata, Name, Penalty, build_adapter, check_body, discriminate_by

AtLeastOne = Annotated[int, Field(ge=1)]


class TextPart(TypedDict, total=False):
    type: Required[Literal["text"]]
    text: Required[str]


class RefusalPart(TypedDict, total=False):
    type: Required[Literal["refusal"]]
    refusal: Required[str]


class ImageUrl(TypedDict, total=False):
    url: Required[str]
    detail: Literal["auto", "low", "high", "original"] | None


class ImagePart(TypedDict, total=False):
    type: Required[Literal["image_url"]]
    image_url: Required[ImageUrl]


class InputAudio(TypedDict, total=False):
    data: Required[str]
    format: Required[str]


class AudioPart(TypedDict, total=False):
    type: Required[Literal["input_audio"]]
    input_audio: Required[InputAudio]


class File(TypedDict, total=False):
    file_data: str | None
    file_id: str | None
    filename: str | None


class FilePart(TypedDict, total=False):
    type: Required[Literal["file"]]
    file: Required[File]


InputPart = Annotated[TextPart | ImagePart | AudioPart | FilePart, Field(discriminator="type")]
AssistantPart = Annotated[TextPart | RefusalPart, Field(discriminator="type")]
InputContent = str | Annotated[list[InputPart], Field(fail_fast=True)]


class CalledFunction(TypedDict, total=False):
    name: Required[str]
    arguments: Required[str]


class CalledCustom(TypedDict, total=False):
    name: Required[str]
    input: Required[str]


class FunctionCall(TypedDict, total=False):
    id: Required[str]
    type: Literal["function"] | None
    function: Required[CalledFunction]
    extra_content: Json | None


class CustomCall(TypedDict, total=False):
    id: Required[str]
    type: Required[Literal["custom"]]
    custom: Required[CalledCustom]


ToolCall = Annotated[
    Annotated[FunctionCall, Tag("function")] | Annotated[CustomCall, Tag("custom")], discriminate_by("type", "function")
]


class AudioReference(TypedDict, total=False):
    id: Required[str]


class SystemMessage(TypedDict, total=False):
    role: Required[Literal["system", "developer"]]
    content: Required[InputContent]
    name: str | None


class UserMessage(TypedDict, total=False):
    role: Required[Literal["user"]]
    content: Required[InputContent]
    name: str | None


class AssistantMessage(TypedDict, total=False):
    role: Required[Literal["assistant"]]
    content: str | Annotated[list[AssistantPart], Field(fail_fast=True)] | None
    refusal: str | None
    tool_calls: Annotated[list[ToolCall], Field(fail_fast=True)] | None
    function_call: CalledFunction | None
    audio: AudioReference | None
    name: str | None
    reasoning_content: str | None
    reasoning: str | None
    reasoning_details: list[Json] | None


class ToolMessage(TypedDict, total=False):
    role: Required[Literal["tool"]]
    tool_call_id: Required[str]
    content: Required[InputContent]
    name: str | None


class FunctionMessage(TypedDict, total=False):
    role: Required[Literal["function"]]
    name: Required[str]
    content: Required[str | None]


Message = Annotated[
    SystemMessage | UserMessage | AssistantMessage | ToolMessage | FunctionMessage, Field(discriminator="role")
]


class Function(TypedDict, total=False):
    name: Required[Name]
    description: str | None
    parameters: Json | None
    strict: bool | None


class FunctionTool(TypedDict, total=False):
    type: Required[Literal["function"]]
    function: Required[Function]


class TextFormat(TypedDict, total=False):
    type: Required[Literal["text"]]


class Grammar(TypedDict, total=False):
    definition: Required[str]
    syntax: Required[Literal["lark", "regex"]]


class GrammarFormat(TypedDict, total=False):
    type: Required[Literal["grammar"]]
    grammar: Required[Grammar]


class Custom(TypedDict, total=False):
    name: Required[Name]
    description: str | None
    format: Annotated[TextFormat | GrammarFormat, Field(discriminator="type")] | None


class CustomTool(TypedDict, total=False):
    type: Required[Literal["custom"]]
    custom: Required[Custom]


class FileSearchTool(TypedDict, total=False):
    type: Required[Literal["file_search"]]
    vector_store_ids: Required[list[str]]


class WebSearchTool(TypedDict, total=False):
    type: Required[Literal["web_search"]]


HOSTED_TOOL_TYPES = frozenset({"file_search", "web_search"})
"""The types of tools that are written as in the Responses API. OpenAI's own Chat Completions API has none of them."""

_HOSTED_TOOLS: Final = (FileSearchTool, WebSearchTool)
"""Tools of which the schema has only the keys that the gateway reads first. Whoever runs them judges the others."""

Tool = Annotated[FunctionTool | CustomTool | FileSearchTool | WebSearchTool, Field(discriminator="type")]


class Named(TypedDict, total=False):
    name: Required[Name]


class NamedFunction(TypedDict, total=False):
    type: Required[Literal["function"]]
    function: Required[Named]


class NamedCustom(TypedDict, total=False):
    type: Required[Literal["custom"]]
    custom: Required[Named]


class AllowedTools(TypedDict, total=False):
    mode: Required[Literal["auto", "required"]]
    tools: Required[
        Annotated[list[Annotated[NamedFunction | NamedCustom, Field(discriminator="type")]], Field(min_length=1)]
    ]


class AllowedToolsChoice(TypedDict, total=False):
    type: Required[Literal["allowed_tools"]]
    allowed_tools: Required[AllowedTools]


ToolChoice = (
    Literal["none", "auto", "required"]
    | Annotated[NamedFunction | NamedCustom | AllowedToolsChoice, Field(discriminator="type")]
)


class JsonSchema(TypedDict, total=False):
    name: Required[Name]
    description: str | None
    schema: Json | None
    strict: bool | None


class JsonSchemaFormat(TypedDict, total=False):
    type: Required[Literal["json_schema"]]
    json_schema: Required[JsonSchema]


class JsonObjectFormat(TypedDict, total=False):
    type: Required[Literal["json_object"]]


ResponseFormat = Annotated[TextFormat | JsonSchemaFormat | JsonObjectFormat, Field(discriminator="type")]


class StreamOptions(TypedDict, total=False):
    include_usage: bool | None
    include_obfuscation: bool | None


class AudioOutput(TypedDict, total=False):
    format: Required[str]
    voice: Required[str | Json]


class Prediction(TypedDict, total=False):
    type: Required[Literal["content"]]
    content: Required[str | list[TextPart]]


class ApproximatePlace(TypedDict, total=False):
    city: str | None
    country: str | None
    region: str | None
    timezone: str | None


class UserLocation(TypedDict, total=False):
    type: Required[Literal["approximate"]]
    approximate: Required[ApproximatePlace]


class WebSearchOptions(TypedDict, total=False):
    search_context_size: Literal["low", "medium", "high"] | None
    user_location: UserLocation | None


class Reasoning(TypedDict, total=False):
    """OpenRouter's `reasoning` parameter. It has more keys, which are not validated here."""

    effort: str | None
    max_tokens: AtLeastOne | None
    enabled: bool | None
    summary: str | None


class ThinkingParam(TypedDict, total=False):
    """The `thinking` parameter of DeepSeek, Kimi and GLM. It has more keys, which are not validated here."""

    type: Required[str]
    budget_tokens: AtLeastOne | None


class Request(TypedDict, total=False):
    messages: Required[Annotated[list[Message], Field(fail_fast=True), Field(min_length=1)]]
    model: Required[str]
    audio: AudioOutput | None
    extensions: bool | None
    frequency_penalty: Penalty | None
    function_call: Literal["none", "auto"] | Named | None
    functions: Annotated[list[Function], Field(fail_fast=True)] | None
    logit_bias: dict[str, Annotated[float, Field(ge=-100, le=100)]] | None
    logprobs: bool | None
    max_completion_tokens: AtLeastOne | None
    max_tokens: AtLeastOne | None
    metadata: Metadata | None
    modalities: list[Literal["text", "audio"]] | None
    n: Annotated[int, Field(ge=1, le=128)] | None
    parallel_tool_calls: bool | None
    prediction: Prediction | None
    presence_penalty: Penalty | None
    prompt_cache_key: str | None
    prompt_cache_retention: str | None
    reasoning: Reasoning | None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None
    response_format: ResponseFormat | None
    safety_identifier: str | None
    seed: int | None
    service_tier: str | None
    stop: str | Annotated[list[str], Field(max_length=4)] | None
    store: bool | None
    stream: bool | None
    stream_options: StreamOptions | None
    temperature: Annotated[float, Field(ge=0, le=2)] | None
    thinking: bool | ThinkingParam | None
    tool_choice: ToolChoice | None
    tools: Annotated[list[Tool], Field(fail_fast=True)] | None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None
    top_p: Annotated[float, Field(ge=0, le=1)] | None
    user: str | None
    verbosity: Literal["low", "medium", "high"] | None
    web_search_options: WebSearchOptions | None


_SILENT_KEYS: Final = ("index", *REASONING_TEXT_FIELDS)
"""Keys that are no loss: reasoning, which is lifted, and the positions of calls that clients copy from streams."""


@cache
def _unknown_fields() -> UnknownFields:
    return UnknownFields(Request, skipped=_HOSTED_TOOLS, ignored=_SILENT_KEYS, indexed=False)


def find_unknown_in_request(body: Json) -> list[str]:
    """Returns the paths of keys inside a valid body that the schema does not have, except its own keys."""
    return _unknown_fields().find(body)


REQUEST_FIELDS = frozenset(Request.__annotations__)
"""Every top-level key that the endpoint knows."""


def validate(body: Json) -> None:
    """Raises InvalidRequest for the first field that is malformed. Null means the same as a missing key."""
    check_body(_REQUEST_ADAPTER, body)
    if body.get("stream_options") is not None and not body.get("stream"):
        raise InvalidRequest("'stream_options' is only allowed when 'stream' is true.", param="stream_options")
    if body.get("top_logprobs") is not None and not body.get("logprobs"):
        raise InvalidRequest("'top_logprobs' is only allowed when 'logprobs' is true.", param="top_logprobs")


def uses_legacy_functions(body: Json) -> bool:
    """Whether a body uses the legacy `functions`, so that its client expects `function_call` in the reply."""
    return bool(body.get("functions")) and not body.get("tools")


_REQUEST_ADAPTER = build_adapter(Request)
"""Built at import, because building it while the first request waits takes too long."""


_LENIENT_SCHEMA: Final = LenientSchema(_REQUEST_ADAPTER)


def keep_known(body: Json) -> Json:
    """Returns the known part of a body that is not valid, whose values only a chat upstream can judge.

    Without the calls of unknown types it has no tool messages that answer them.
    """
    known = _LENIENT_SCHEMA.keep_known(body)
    lost_ids = _list_call_ids(body["messages"]) - _list_call_ids(known["messages"])
    if not lost_ids:
        return known
    messages = [message for message in known["messages"] if message.get("tool_call_id") not in lost_ids]
    return {**known, "messages": messages}


def _list_call_ids(messages: Iterable[Json]) -> set[str]:
    """Returns the ids of all calls, of whatever types."""
    return {
        call_id
        for message in messages
        for call in message.get("tool_calls") or ()
        if isinstance(call, dict) and isinstance(call_id := call.get("id"), str)
    }


@cache
def _request_schema() -> Json:
    # With its own `$id`, the schema's references resolve inside it wherever it is embedded.
    return {"$id": "create-chat-completion", **_REQUEST_ADAPTER.json_schema()}


REQUEST_SCHEMA = _request_schema
"""Returns the JSON schema of a request, for `/openapi.json`. It is built at the first call."""
