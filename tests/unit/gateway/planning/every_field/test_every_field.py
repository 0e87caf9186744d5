"""No field of a request is lost silently: it is sent upstream, refused, or reported as a loss."""

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import pytest

from providers.base import Dialect
from scripts.docs import parameters
from tests.unit.gateway.planning.every_field import (
    chat_fields,
    gemini_fields,
    messages_fields,
    ollama_fields,
    responses_fields,
    responses_parameter_fields,
)
from tests.unit.gateway.planning.every_field.field_cases import Case
from tests.unit.gateway.planning.every_field.upstream_requests import UPSTREAMS, UpstreamRequest, lower_for_upstream
from translation.chat.client import schema as chat_schema
from translation.errors import InvalidRequest, Unrepresentable
from translation.gemini.schema import request as gemini_schema
from translation.messages.schema import request as messages_schema
from translation.ollama.client import schema as ollama_schema
from translation.representation.loss import Loss
from translation.responses.schema import request as responses_schema

Json = dict[str, Any]

_MINIMAL: Final[dict[Dialect, Json]] = {
    "chat": {"messages": [{"role": "user", "content": "Hi"}]},
    "responses": {"input": "Hi"},
    "messages": {"max_tokens": 5000, "messages": [{"role": "user", "content": "Hi"}]},
    "ollama": {"messages": [{"role": "user", "content": "Hi"}]},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
}


def _cases(
    dialect: Dialect, asked: Mapping[str, parameters.ParameterSample], fields: Mapping[str, Case]
) -> dict[str, Case]:
    plain = _MINIMAL[dialect]
    whole = {
        name: Case(name, {**plain, **sample.other_fields}, {**plain, **sample.other_fields, name: sample.value})
        for name, sample in asked.items()
    }
    return {**whole, **fields}


CASES: dict[Dialect, dict[str, Case]] = {
    "chat": _cases("chat", parameters.CHAT, chat_fields.CASES),
    "responses": _cases(
        "responses", parameters.RESPONSES, {**responses_fields.CASES, **responses_parameter_fields.CASES}
    ),
    "messages": _cases("messages", parameters.MESSAGES, messages_fields.CASES),
    "ollama": _cases("ollama", parameters.OLLAMA, ollama_fields.CASES),
    "gemini": gemini_fields.CASES,
}

ALL = [
    pytest.param(dialect, upstream, id=f"{dialect} to {upstream}")
    for dialect in CASES
    for upstream in UPSTREAMS
    if UPSTREAMS[upstream].relays <= upstream.startswith(dialect)
]


OURS: Final = {
    "anthropic_beta": "it is about Anthropic's own servers",
    "anthropic_version": "it is about Anthropic's own servers",
    "background": "the gateway keeps it",
    "cache_control": "a hint for Anthropic's own servers",
    "client_metadata": "Codex tells it to whom it may concern",
    "CompactionBlock.encrypted_content": "only Anthropic's own servers can read it",
    "CompactionBlock.signature": "only Anthropic's own servers can read it",
    "context_management": "the gateway does it",
    "extensions": "the gateway's own",
    "FunctionCall.extra_content": "only the upstream that sent it can read it",
    "keep_alive": "clients do not load the models of an operator",
    "PlainTextSource.media_type": "a plain text has one type only",
    "stream_options": "the gateway counts, and its own stream has nothing to hide",
    "StreamOptions.include_usage": "its part",
    "StreamOptions.include_obfuscation": "the gateway pads the deltas of its own stream",
    "ToolMessage.name": "the call that it answers has the name",
    "truncation": "the gateway does it",
}
"""Field -> why no upstream needs it."""

_SCHEMAS = ("JsonSchema", "JsonSchemaFormat")
_HOLDING = ("anthropic", "gemini", "ollama", "harmony", "engine")
_A_LABEL = "a label of a schema that is held to whatever it is called"
_ALWAYS_HELD = "schemas are always held to here"
_BY_FORMAT = "gpt-oss is not told its earlier reasoning once it has answered: its format says so"

HONOURED: Final[dict[tuple[str, str], str]] = {
    **{(upstream, f"{of}.name"): _A_LABEL for upstream in _HOLDING for of in _SCHEMAS},
    **{(upstream, f"{of}.strict"): _ALWAYS_HELD for upstream in _HOLDING for of in _SCHEMAS},
    ("harmony", "Function.strict"): _ALWAYS_HELD,
    ("harmony", "SummaryText.text"): _BY_FORMAT,
    ("harmony", "ReasoningText.text"): _BY_FORMAT,
    ("harmony", "ReasoningItem.summary"): _BY_FORMAT,
    ("harmony", "ReasoningItem.content"): _BY_FORMAT,
    ("harmony", "AssistantMessage.reasoning_content"): _BY_FORMAT,
    ("harmony", "AssistantMessage.reasoning"): _BY_FORMAT,
    ("harmony", "Message.thinking"): _BY_FORMAT,
    ("harmony", "Tool.strict"): _ALWAYS_HELD,
    ("harmony", "Choice.disable_parallel_tool_use"): "gpt-oss makes one call at a time",
    ("harmony", "NamedChoice.disable_parallel_tool_use"): "gpt-oss makes one call at a time",
    **{(upstream, "service_tier"): "the standard tier is the only one here" for upstream in ("harmony", "engine")},
    **{
        ("harmony", f"OpenApiSchema.{key}"): "gpt-oss reads schemas as types of TypeScript, which have no such thing"
        for key in ("items", "prefixItems", "additionalProperties", "anyOf", "defs")
    },
    **{("gemini", f"{of}.displayName"): "a label, which the part has in no other form" for of in ("Blob", "FileData")},
    ("gemini", "FileData.mimeType"): "the server at the address says the type",
    ("harmony", "thinking"): "gpt-oss thinks unless told not to",
    ("harmony", "parallel_tool_calls"): "gpt-oss makes one call at a time",
}
"""(upstream, field) -> why the field is neither sent nor lost."""


def _names(param: str | None, place: str) -> bool:
    """Whether a parameter is this place, or holds it, or is in it."""
    said, wanted = (re.sub(r"\[\d+\]", "", each).split(".") for each in (param or "", place))
    short, long = sorted((said, wanted), key=len)
    rest = iter(long)
    return said[0] == wanted[0] and all(word in rest for word in short)


def _losses(case: Case, before: UpstreamRequest, after: UpstreamRequest) -> list[Loss]:
    """Returns the losses of the field itself: new ones, and those that name it most exactly."""
    exactly = [loss for loss in after.losses if re.sub(r"\[\d+\]", "", loss.param) == case.place]
    return [*exactly, *(loss for loss in after.losses if loss not in before.losses)]


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Names the field in what fails. The thousands of fields and upstreams are not a test each, which takes longer."""
    try:
        yield
    except BaseException as failure:
        failure.add_note(f"the field is {name}")
        raise


@pytest.mark.parametrize(("dialect", "upstream"), ALL)
def test_a_field_is_sent_refused_or_reported_as_lost(dialect: Dialect, upstream: str) -> None:
    for name in CASES[dialect]:
        with naming(name):
            check_field(dialect, upstream, name)


def check_field(dialect: Dialect, upstream: str, name: str) -> None:
    case = CASES[dialect][name]
    try:
        before = lower_for_upstream(upstream, dialect, case.plain)
    except InvalidRequest:
        return  # refused is what the field stands beside, by a case of its own
    refused: InvalidRequest | None = None
    try:
        after = lower_for_upstream(upstream, dialect, case.asked)
    except InvalidRequest as refusal:
        refused = refusal
    if refused is not None:
        assert _names(refused.param, case.place), refused.param
        return
    lost = _losses(case, before, after)
    if lost:
        assert any(_names(loss.param, case.place) for loss in lost), lost
    elif name not in OURS and (upstream, name) not in HONOURED:
        assert after.sent != before.sent, "lost unsaid"
        assert case.value is None or case.value in after.text, after.text


@pytest.mark.parametrize(("dialect", "upstream"), ALL)
def test_a_strict_request_is_refused_for_what_it_would_lose(dialect: Dialect, upstream: str) -> None:
    for name in CASES[dialect]:
        with naming(name):
            check_strict_request(dialect, upstream, name)


def check_strict_request(dialect: Dialect, upstream: str, name: str) -> None:
    body = CASES[dialect][name].asked
    try:
        lenient = lower_for_upstream(upstream, dialect, body)
    except InvalidRequest as refusal:
        with pytest.raises(InvalidRequest, match=re.escape(str(refusal))):
            lower_for_upstream(upstream, dialect, body, strict=True)
        return
    if not lenient.losses:
        assert lower_for_upstream(upstream, dialect, body, strict=True).sent == lenient.sent
        return
    with pytest.raises(Unrepresentable) as refused:
        lower_for_upstream(upstream, dialect, body, strict=True)
    assert refused.value.param == lenient.losses[0].param
    assert all(str(loss) in str(refused.value) for loss in lenient.losses)


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("dialect", CASES)
def test_a_strict_model_refuses_the_same_as_a_strict_request(dialect: Dialect, upstream: str) -> None:
    body = {**_MINIMAL[dialect], "unheard_of": 1}
    if "relayed" in upstream and upstream.startswith(dialect):
        body = {**_MINIMAL[dialect], "thinking": True}
    with pytest.raises(Unrepresentable) as refused:
        lower_for_upstream(upstream, dialect, body, by_model=True)
    assert refused.value.param in ("unheard_of", "thinking")


@pytest.mark.parametrize(
    ("dialect", "build_schema"),
    [
        ("chat", chat_schema.REQUEST_SCHEMA),
        ("responses", responses_schema.REQUEST_SCHEMA),
        ("messages", messages_schema.REQUEST_SCHEMA),
        ("ollama", ollama_schema.CHAT_SCHEMA),
        ("gemini", gemini_schema.REQUEST_SCHEMA),
    ],
    ids=CASES,
)
def test_every_field_of_a_request_has_a_case(dialect: Dialect, build_schema: Callable[[], Json]) -> None:
    found = {
        f"{name.rpartition('__')[2]}.{key}"
        for name, definition in build_schema()["$defs"].items()
        for key in definition.get("properties", {})
        if key != "type"
    }
    known = CASES[dialect].keys() | OURS.keys() | {f"{of}.{key}" for of, keys in NAMES[dialect].items() for key in keys}
    everywhere = {name for name in found if name.partition(".")[2] in EVERYWHERE[dialect]}
    assert found - known - everywhere == set()


CLIENT_DATA: Final[dict[Dialect, frozenset[str]]] = {
    "gemini": frozenset(
        {
            *("args", "response", "default", "example", "labels", "mediaResolution", "safetySettings", "videoMetadata"),
            *("parametersJsonSchema", "responseJsonSchema", "googleSearch", "googleSearchRetrieval", "retrievalConfig"),
        }
    ),
    "ollama": frozenset({"arguments", "parameters", "format"}),
}
"""Keys of objects that may have any keys: the client's own data, and what is lost as a whole."""

MAPS: Final = frozenset({"properties", "defs"})
"""Keys of objects whose keys are the client's, and whose values are the API's."""


def _find_objects(value: Any, free: frozenset[str], path: str = "") -> Iterator[tuple[str, Json]]:
    """Yields (path without indices, object) for the objects in a body whose keys are those of the API."""
    if isinstance(value, list):
        for entry in value:
            yield from _find_objects(entry, free, path)
    elif isinstance(value, dict):
        if path and path.rpartition(".")[2] not in MAPS:
            yield path, value
        for key, inner in value.items():
            if key not in free:
                yield from _find_objects(inner, free, f"{path}.{key}".removeprefix("."))


@pytest.mark.parametrize("dialect", CLIENT_DATA)
def test_unknown_keys_of_any_object_are_lost_by_name(dialect: Dialect) -> None:
    free = CLIENT_DATA[dialect]
    for name, case in CASES[dialect].items():
        for place in dict.fromkeys(path for path, _ in _find_objects(case.asked, free)):
            body = copy.deepcopy(case.asked)
            next(found for path, found in _find_objects(body, free) if path == place)["unheard_of"] = 1
            with naming(f"{name} at {place}"):
                try:
                    losses = lower_for_upstream("chat", dialect, body).losses
                except InvalidRequest:
                    continue
                assert f"{place}.unheard_of" in [re.sub(r"\[\d+\]", "", loss.param) for loss in losses]


EVERYWHERE: Final[dict[Dialect, frozenset[str]]] = {
    "chat": frozenset({"role", "id", "tool_call_id"}),
    "responses": frozenset({"id", "call_id", "role", "status"}),
    "messages": frozenset({"role", "id", "tool_use_id"}),
    "ollama": frozenset({"role", "id", "tool_call_id", "tool_name"}),
    "gemini": frozenset({"role", "id"}),
}
"""Ids and statuses of items. Outputs have cases; for other items no API passes them to its model."""

NAMES: Final[dict[Dialect, dict[str, tuple[str, ...]]]] = {
    "chat": {
        "AllowedToolsChoice": ("allowed_tools",),
        "AudioOutput": ("format", "voice"),
        "AudioPart": ("input_audio",),
        "CustomCall": ("custom",),
        "CustomTool": ("custom",),
        "FilePart": ("file",),
        "FunctionCall": ("function",),
        "FunctionMessage": ("name",),
        "FunctionTool": ("function",),
        "GrammarFormat": ("grammar",),
        "ImagePart": ("image_url",),
        "JsonSchemaFormat": ("json_schema",),
        "NamedFunction": ("function",),
        "Prediction": ("content",),
        "UserLocation": ("approximate",),
        "WebSearchOptions": ("user_location",),
    },
    "responses": {
        "Compaction": ("encrypted_content",),
        "ContextManagement": ("compact_threshold",),
        "Conversation": ("id",),
        "FunctionCallOutput": ("name", "namespace"),
        "McpApprovalRequest": ("name", "server_label"),
        "McpApprovalResponse": ("approval_request_id",),
        "McpCall": ("name", "server_label"),
        "McpListTools": ("server_label",),
        "Moderation": ("model",),
        "MultiAgentCallOutput": ("action",),
        "Program": ("fingerprint",),
        "Prompt": ("version", "variables"),
    },
    "messages": {
        "TurnMessage": ("content",),
        "ThinkingBlock": ("signature",),
        "EnabledThinking": ("display",),
        "AdaptiveThinking": ("display",),
        "ContinuedThread": ("previous_message_id",),
        "McpServerEntry": ("authorization_token", "name", "tool_configuration", "url"),
        "McpServerTools": ("allowed_tools", "enabled"),
        "McpToolConfig": ("defer_loading", "enabled"),
        "Tool": ("configs", "default_config", "mcp_server_name"),
        "WebSearchResult": ("encrypted_content", "page_age", "title"),
    },
    "ollama": {
        "Call": ("function",),
        "FunctionCall": ("index",),
        "Message": ("tool_calls", "name"),
        "Tool": ("function",),
    },
    "gemini": {
        "CodeExecutionResult": ("output",),
        "FunctionDeclaration": ("parameters",),
        "FunctionResponse": ("name",),
        "FunctionResponsePart": ("inlineData", "fileData"),
        "GenerationConfig": ("thinkingConfig",),
        "OpenApiSchema": ("propertyOrdering",),
        "Part": (
            "thoughtSignature",
            "functionCall",
            "functionResponse",
            "executableCode",
            "codeExecutionResult",
        ),
        "ThinkingConfig": ("includeThoughts",),
        "Tool": ("functionDeclarations",),
        "ToolConfig": ("functionCallingConfig",),
        "TurnContent": ("parts",),
    },
}
"""Parts of what has its case as a whole, and what the gateway reads itself."""
