"""The configuration of one model, and of families of models."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from gateway.config.mcp_server_settings import ModelToolSettings
from providers.base import Capabilities
from providers.config import CapabilityOverrides, WholeNumber
from providers.model_families import MODEL_FAMILIES, ModelFamily, OwnParsingFormat, RawTextFormat
from translation.representation.profile import (
    TOOL_PARSERS,
    CallSignatures,
    EmptyFinalFix,
    ForcedTool,
    ParsingFormat,
    Profile,
    RawTextField,
    ReplayIds,
    ReplayReasoning,
    SchemaShim,
    SystemMessages,
    ThinkingForm,
    ThinkingSwitch,
    ThinkTag,
    ToolValidation,
    TwoPass,
)

NonEmptyText = Annotated[str, Field(min_length=1)]
ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


def _require_parser(name: str | None, *, native: str) -> str | None:
    """Returns the name of a parser. `native` is the name for no parser. vLLM's parsers are allowed beside `openai`."""
    if name is None or name == native or name in TOOL_PARSERS or (native == "openai" and name.startswith("vllm:")):
        return name
    context = {"name": name, "known": ", ".join((native, *TOOL_PARSERS))}
    raise PydanticCustomError("parser", "there is no parser {name}; write one of {known}", context)


class FamilyConfig(BaseModel):
    """The form in which models of a [family](providers.md#families-of-models) write thinking and calls as text."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    patterns: tuple[NonEmptyText, ...] = Field(
        default=(),
        description="Patterns, with `*` and `?`, of the names of the family's models, in lower case and without "
        "folders. If left out, the patterns of the built-in family of this name.",
    )
    parsing_format: OwnParsingFormat = Field(
        default="direct_response",
        description="`think_tags`: the models write their thinking between think tags. `direct_response`: they do not.",
    )
    tool_parser: NonEmptyText = Field(
        default="openai",
        description="The format of the models' calls in text, as in `tool_parser` of a model. `openai`: text is not "
        "parsed for calls.",
    )

    @field_validator("tool_parser")
    @classmethod
    def _refuse_unknown_parsers(cls, name: str) -> str | None:
        return _require_parser(name, native="openai")

    def build_family(self, known: ModelFamily | None) -> ModelFamily:
        """Returns the family. `known` is the built-in family of the same name."""
        vllm_parser = self.tool_parser.removeprefix("vllm:") if self.tool_parser.startswith("vllm:") else None
        parser = self.tool_parser if vllm_parser is None else "openai"
        text = RawTextFormat(self.parsing_format, parser, vllm_parser)
        family = known or ModelFamily("from the configuration")
        patterns = tuple(pattern.lower() for pattern in self.patterns)
        return family._replace(patterns=patterns or family.patterns, text=text)


class ModelConfig(BaseModel):
    """The configuration of a model name, or of every name that matches a pattern.

    Fields that override a field of `Profile` have its name.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    provider: NonEmptyText = Field(description="The provider that serves the model.")
    model: NonEmptyText | None = Field(
        default=None,
        description="The upstream's name of the model. If left out, the upstream gets the name that the client sent.",
    )
    parsing_format: ParsingFormat | None = Field(
        default=None,
        description="`think_tags`: text between think tags is reasoning. `leading_think_tags`: only at the beginning "
        "of a translated reply of a chat server. `direct_response`: text remains unchanged. If left out, the model's "
        "[family](providers.md#families-of-models) decides.",
    )
    tool_parser: NonEmptyText | None = Field(
        default=None,
        description="How tool calls are parsed. `openai`: as the upstream reports them. `hermes`, `llama`, "
        "`llama3_json`, `mistral`, `json` and `pythonic` parse them from the text in that format. On `vllm_inprocess`, "
        "`vllm:NAME` is vLLM's own parser of that name. With two passes the default is the format of the model's "
        "[family](providers.md#families-of-models), or `hermes`.",
    )
    text_tool_calls: NonEmptyText | None = Field(
        default=None,
        description="For upstreams without tools: tools are written into the prompt, and calls are parsed from the "
        "text, in the format `hermes`, `llama`, `llama3_json`, `mistral`, `json` or `pythonic`. `none` does neither.",
    )
    single_tool_block: bool | None = Field(
        default=None,
        description="Whether a reply ends after its first block of calls, as with `parallel_tool_calls: false`.",
    )
    tool_validation: ToolValidation | None = Field(
        default=None,
        description="What happens to a call parsed from text whose arguments do not fit the tool's schema: `drop` "
        "omits it, `report` keeps it. Both add a [warning](tools.md#calls-in-text). With `drop` a stream has a call "
        "when it is complete, with `report` as it arrives.",
    )
    max_tool_args_bytes: Annotated[WholeNumber, Field(ge=1)] | None = Field(
        default=None,
        description="The longest arguments of a call that are parsed, in bytes: from text, or as an object. Longer "
        "arguments remain text and are marked.",
    )
    max_tool_output_bytes: Annotated[WholeNumber, Field(ge=1)] | None = Field(
        default=None,
        description="The longest output of a call, in bytes. In a longer output, text is cut with `[truncated]`, and "
        "media are replaced by a note. Both are losses.",
    )
    max_tool_calls_per_turn: Annotated[WholeNumber, Field(ge=1)] | None = Field(
        default=None,
        description="The most calls in one reply. Further calls are omitted, with a note. If left out, there is no "
        "limit.",
    )
    cite_documents: bool | None = Field(
        default=None,
        description="Whether `anthropic` is asked to cite the files of a request, unless the answer must fit a schema. "
        "The default is `true`. `false` is for hosts without citations, and saves the tokens of citations.",
    )
    fix_empty_final: EmptyFinalFix | None = Field(
        default=None,
        description="`true`: a reply that completes with neither text nor a valid call gets a message: its reasoning, "
        "or a statement that there is no answer. `retry`: the model is asked once more, and a second reply without an "
        "answer gets that message.",
    )
    profile: NonEmptyText | None = Field(
        default=None,
        description="The name of a [family of models](providers.md#profiles), built-in or under `families`. It sets "
        "the defaults of the other keys here. If left out, the model's name decides.",
    )
    two_pass: TwoPass | None = Field(
        default=None,
        description="Whether to generate thinking and answer in two passes of the engine, which enforces the thinking "
        "budget: `true`, `false`, or `engine` for one pass in which vLLM enforces the budget. May also be a mapping "
        "with the five keys below.",
    )
    think_tag: ThinkTag | None = Field(default=None, description="The tag around the thinking, with two passes.")
    max_thinking_tokens: Annotated[WholeNumber, Field(ge=0)] | None = Field(
        default=None, description="The most tokens for thinking, if the request sets no budget."
    )
    max_response_tokens: Annotated[WholeNumber, Field(ge=1)] | None = Field(
        default=None,
        description="The most tokens for the answer after the thinking. If left out, the room in the context is the "
        "limit.",
    )
    bridge: str | None = Field(
        default=None,
        description="Text that ends the thinking if it is cut off at its budget. An empty text or `null` adds none.",
    )
    effort_budgets: dict[ReasoningEffort, Annotated[WholeNumber, Field(ge=0)]] | None = Field(
        default=None,
        description="The most tokens for thinking, by `reasoning.effort`. An effort that is not listed gets a share of "
        "`max_thinking_tokens`: `minimal` a sixteenth, `low` a quarter, `medium` half, `high` and above all of it.",
    )
    think_open: bool | None = Field(
        default=None,
        description="With `think_tags`: `true` if the chat template ends with the opening think tag, so that replies "
        "start inside it, `false` if it does not. If left out, a reply's text before its first tag is held back: it is "
        "reasoning if that tag is a closing tag, and the answer if there is no tag. `false` streams the text of "
        "replies without tags.",
    )
    system_messages: SystemMessages | None = Field(
        default=None,
        description="`merge_leading`: leading system and developer messages become one. `merge_all`: later messages "
        "too. `keep`: they remain unchanged.",
    )
    volatile_lines: tuple[NonEmptyText, ...] | None = Field(
        default=None,
        description="Patterns, with `*` and `?`, of whole lines in the system prompt that change from request to "
        "request. They are moved to the [end of the newest message](prefix-cache.md), so that the upstream can reuse "
        "its cache of the prompt. The default contains Claude Code's billing header, except for `anthropic` and "
        "`scripted`. With `[]` no line is moved.",
    )
    developer_role: Literal["developer", "system", "user"] | None = Field(
        default=None, description="The role with which a developer message is sent."
    )
    reasoning_part: Literal["reasoning_text", "summary_text"] | None = Field(
        default=None,
        description="The type of the parts of a reasoning item for requests without `reasoning.summary`. Requests with "
        "`reasoning.summary` always get `summary_text`. Write `summary_text` for Responses clients that show summaries "
        "only and do not request them.",
    )
    replay_reasoning: ReplayReasoning | None = Field(
        default=None,
        description="The field in which past reasoning is sent. `think_tags`: inside the text. `none`: past reasoning "
        "is not sent.",
    )
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = Field(
        default=None, description="The chat field that limits the length of the answer."
    )
    thinking_switch: ThinkingSwitch | None = Field(
        default=None, description="How the request field `thinking` is sent to the upstream."
    )
    thinking_form: ThinkingForm | None = Field(
        default=None,
        description="The form in which `anthropic`, `gemini` and `ollama` are asked to think. `adaptive`: an effort. "
        "`budget`: a number of tokens, or a switch on `ollama`. `by_model`: the model's name decides. For an unknown "
        "name this means `adaptive` on `anthropic`, the switch on `ollama`, and nothing on `gemini`.",
    )
    effort_field: Literal["reasoning_effort", "reasoning", "none"] | None = Field(
        default=None, description="The chat field for the reasoning effort."
    )
    raw_text_field: RawTextField | None = Field(
        default=None,
        description="The chat field that asks a server which separates thinking itself to leave it in the text. It is "
        "sent with `parsing_format: direct_response`. `reasoning_format` is the field of llama.cpp, and the default "
        "for its types. `none`: no field is sent.",
    )
    forced_tool: ForcedTool | None = Field(
        default=None,
        description="The form in which a `tool_choice` of one tool is sent. `named`: the name of the tool. `alone`: "
        "the request has no other tool, for upstreams that ignore the name.",
    )
    media_in_tool_messages: bool | None = Field(
        default=None,
        description="Whether the upstream accepts images in tool messages. Otherwise images follow in a user message.",
    )
    empty_reasoning: bool | None = Field(
        default=None,
        description="Whether chat messages with calls always have a reasoning field, which may be empty, for upstreams "
        "that refuse messages without it.",
    )
    replay_ids: ReplayIds | None = Field(
        default=None,
        description="The ids of past items that are sent to a Responses upstream: only ids of reasoning items "
        "(`reasoning`), all ids (`keep`), or none (`drop`).",
    )
    call_signatures: CallSignatures | None = Field(
        default=None,
        description="The signature with which past calls that have none are sent to Gemini: Gemini's `placeholder`, no "
        "signature (`none`), or what the model requires (`by_model`; in chat, no signature).",
    )
    schema_shims: frozenset[SchemaShim] | None = Field(
        default=None,
        description="Changes to tools. `no_empty_required` omits an empty `required`, `no_schema_key` omits `$schema`, "
        "`signed_formats` replaces unsigned number formats by signed ones, `no_descriptions` omits the descriptions of "
        "functions (a loss).",
    )
    parallel_tool_calls: bool | None = Field(
        default=None, description="The value of `parallel_tool_calls` for requests with tools that leave it out."
    )
    extra_params: frozenset[NonEmptyText] | None = Field(
        default=None,
        description="Request fields that are forwarded unchanged, in addition to the fields of the provider's type.",
    )
    resumable: bool = Field(
        default=False, description="Whether streams of this model can be resumed, as if clients sent `resumable: true`."
    )
    strict: bool = Field(
        default=False,
        description="Whether requests with losses are refused, as if clients sent `x-gateway-strict: true`.",
    )
    request_defaults: dict[str, Any] = Field(
        default_factory=dict,
        description="Values of request fields that clients leave out, such as `temperature`. A field with different "
        "names in OpenAI's two APIs may have either name.",
    )
    tools: ModelToolSettings = Field(
        default=ModelToolSettings(), description="Tools that the gateway adds to every request for the model."
    )
    capabilities: CapabilityOverrides = Field(
        default=CapabilityOverrides(), description="The capabilities of the model that differ from its provider's."
    )

    @model_validator(mode="before")
    @classmethod
    def _expand_two_pass(cls, value: Any) -> Any:
        if not isinstance(value, dict) or "two_pass" not in value:
            return value
        two_pass = value["two_pass"]
        if isinstance(two_pass, bool):
            return {**value, "two_pass": "on" if two_pass else "off"}
        if not isinstance(two_pass, dict):
            return value
        if duplicates := sorted(two_pass.keys() & value.keys()):
            raise PydanticCustomError(
                "two_pass", "write {name} once, in two_pass or beside it", {"name": duplicates[0]}
            )
        return {**value, "two_pass": "on", **two_pass}

    @field_validator("bridge", mode="before")
    @classmethod
    def _read_null_as_empty(cls, value: Any) -> Any:
        return "" if value is None else value

    @field_validator("tool_parser", "text_tool_calls")
    @classmethod
    def _refuse_unknown_parsers(cls, name: str | None, info: ValidationInfo) -> str | None:
        return _require_parser(name, native="openai" if info.field_name == "tool_parser" else "none")

    def build_profile_overrides(self, families: Mapping[str, ModelFamily] = MODEL_FAMILIES) -> dict[str, Any]:
        """Returns the fields of `Profile` that the operator set, over the fields of the family in `profile`."""
        family_fields = families[self.profile].fields if self.profile is not None else {}
        own_fields = {name: value for name in _PROFILE_FIELDS if (value := getattr(self, name)) is not None}
        return {**family_fields, **own_fields}

    def resolve_capabilities(self, provider: Capabilities) -> Capabilities:
        """Returns the provider's capabilities, overridden by the model's own."""
        return replace(provider, **self.capabilities.to_overrides())


_PROFILE_FIELDS = [field.name for field in fields(Profile)]
