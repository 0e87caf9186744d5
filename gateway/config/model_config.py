"""What an operator says about one model."""

from dataclasses import fields, replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from providers.base import Capabilities
from providers.config import CapabilityOverrides, WholeNumber
from providers.profiles import MODEL_FAMILIES
from translation.representation.profile import (
    TOOL_PARSERS,
    CallSignatures,
    ForcedTool,
    ParsingFormat,
    Profile,
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


class ModelConfig(BaseModel):
    """What one model name, or every name that matches a pattern, stands for.

    The fields of `Profile` have the names they have there.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    provider: NonEmptyText = Field(description="The provider that serves it.")
    model: NonEmptyText | None = Field(
        default=None, description="What the upstream calls it; the asked name if left out."
    )
    parsing_format: ParsingFormat | None = Field(
        default=None,
        description="`think_tags`: text between think tags is reasoning. `direct_response`: text is left alone.",
    )
    tool_parser: NonEmptyText | None = Field(
        default=None,
        description="How tool calls are read: `openai`, as the upstream reports them; or out of its text by `hermes`, "
        "`llama`, `llama3_json`, `mistral`, `json` or `pythonic`; on `vllm_inprocess` also `vllm:NAME`, vLLM's own. "
        "With two passes `hermes` if left out.",
    )
    text_tool_calls: NonEmptyText | None = Field(
        default=None,
        description="For upstreams that know no tools: they are said in the prompt and calls are read out of the text, "
        "in the format `hermes`, `llama`, `llama3_json`, `mistral`, `json` or `pythonic`; `none` does neither.",
    )
    single_tool_block: bool | None = Field(
        default=None, description="An answer ends with its first block of calls, as with `parallel_tool_calls: false`."
    )
    tool_validation: ToolValidation | None = Field(
        default=None,
        description="A call read out of text that does not fit its tool's schema: `drop` leaves it out, `report` says "
        "it all the same; both are noted.",
    )
    max_tool_args_bytes: Annotated[WholeNumber, Field(ge=1)] | None = Field(
        default=None,
        description="The longest arguments of a call that are read, in bytes: out of text, or as an object. Longer "
        "ones stay text, and marked.",
    )
    max_tool_output_bytes: Annotated[WholeNumber, Field(ge=1)] | None = Field(
        default=None,
        description="The longest output of a call, in bytes. Of a longer one, text is cut with `[truncated]` and media "
        "are replaced by a note: losses.",
    )
    max_tool_calls_per_turn: Annotated[WholeNumber, Field(ge=1)] | None = Field(
        default=None, description="Calls of one reply after this many are left out, and noted; none are if left out."
    )
    cite_documents: bool | None = Field(
        default=None,
        description="`anthropic` is asked to cite the files of a request, in answers that are held to no schema: "
        "`true` if left out. `false` is for hosts that do not know it, and saves the tokens that it takes.",
    )
    fix_empty_final: bool | None = Field(
        default=None,
        description="A reply that ends well with neither text nor a call gets a message: its reasoning, or that there "
        "is no answer.",
    )
    profile: NonEmptyText | None = Field(
        default=None,
        description="A [family of models](providers.md#profiles) by name: what the fields beside it are that are left "
        "out.",
    )
    two_pass: TwoPass | None = Field(
        default=None,
        description="Thinking and answer as two runs of the engine, so that the budget for thinking holds: `true`, "
        "`false`, or `engine` for one run in which vLLM keeps the budget. May also hold the five keys below.",
    )
    think_tag: ThinkTag | None = Field(default=None, description="The tag around the thinking of two passes.")
    max_thinking_tokens: Annotated[WholeNumber, Field(ge=0)] | None = Field(
        default=None, description="Tokens for thinking, where the request sets no budget."
    )
    max_response_tokens: Annotated[WholeNumber, Field(ge=1)] | None = Field(
        default=None, description="Tokens for the answer after the thinking; as many as there is room for if left out."
    )
    bridge: str | None = Field(
        default=None, description="What ends a thought that is cut off at its budget; an empty text or `null` is none."
    )
    effort_budgets: dict[ReasoningEffort, Annotated[WholeNumber, Field(ge=0)]] | None = Field(
        default=None,
        description="Tokens for thinking by `reasoning.effort`. An effort that is not listed is a share of "
        "`max_thinking_tokens`: `minimal` a sixteenth, `low` a quarter, `medium` half, `high` and above all of it.",
    )
    think_open: bool | None = Field(
        default=None, description="The chat template writes the opening think tag, so replies start inside it."
    )
    system_messages: SystemMessages | None = Field(
        default=None,
        description="`merge_leading`: leading system and developer messages become one; `merge_all`: later ones too; "
        "`keep`: as they came.",
    )
    developer_role: Literal["developer", "system", "user"] | None = Field(
        default=None, description="The role a developer message is sent with."
    )
    reasoning_part: Literal["reasoning_text", "summary_text"] | None = Field(
        default=None,
        description="The part of a reasoning item that thoughts come in: `summary_text` is for Responses clients that "
        "show summaries only, such as Codex, opencode and the AI SDK.",
    )
    replay_reasoning: ReplayReasoning | None = Field(
        default=None,
        description="The field past reasoning goes back in; `think_tags`: in the text; `none`: not at all.",
    )
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = Field(
        default=None, description="The chat field that limits the answer's length."
    )
    thinking_switch: ThinkingSwitch | None = Field(
        default=None, description="How the request field `thinking` is said to the upstream."
    )
    thinking_form: ThinkingForm | None = Field(
        default=None,
        description="How `anthropic`, `gemini` and `ollama` are asked to think: `adaptive`, by an effort; `budget`, by "
        "a number of tokens, or on `ollama` by a mere switch; `by_model`, as the name of the model tells. For a name "
        "that is not known that is `adaptive` on `anthropic`, the switch on `ollama`, nothing on `gemini`.",
    )
    effort_field: Literal["reasoning_effort", "reasoning", "none"] | None = Field(
        default=None, description="The chat field that says how much to reason."
    )
    forced_tool: ForcedTool | None = Field(
        default=None,
        description="How a choice of one tool is said. `named`: by its name; `alone`: no other tool is sent, for "
        "upstreams that do not heed the name.",
    )
    media_in_tool_messages: bool | None = Field(
        default=None, description="The upstream reads images in tool messages; otherwise they follow in a user message."
    )
    empty_reasoning: bool | None = Field(
        default=None,
        description="A chat message with calls has a reasoning field, though an empty one, for upstreams that refuse "
        "it without.",
    )
    replay_ids: ReplayIds | None = Field(
        default=None,
        description="The ids of past items that a Responses upstream is sent: those of `reasoning`, all (`keep`), or "
        "none (`drop`).",
    )
    call_signatures: CallSignatures | None = Field(
        default=None,
        description="Past calls that have no signature go to Gemini with its `placeholder`, without one (`none`), or "
        "as the model wants it (`by_model`; in chat that is without).",
    )
    schema_shims: frozenset[SchemaShim] | None = Field(
        default=None,
        description="What is changed of tools: `no_empty_required` and `no_schema_key` leave out an empty `required` "
        "and `$schema`, `signed_formats` says unsigned formats of numbers as signed ones, `no_descriptions` leaves out "
        "what functions are said to do (a loss).",
    )
    parallel_tool_calls: bool | None = Field(
        default=None, description="`parallel_tool_calls` of requests that have tools and leave it out."
    )
    extra_params: frozenset[NonEmptyText] | None = Field(
        default=None, description="Further request fields to pass on as they are, beside those of the provider's type."
    )
    resumable: bool = Field(
        default=False, description="Streams of this model can be resumed, as if clients sent `resumable: true`."
    )
    strict: bool = Field(
        default=False,
        description="Refuse whatever would be lost on the way, as if clients sent `x-gateway-strict: true`.",
    )
    request_defaults: dict[str, Any] = Field(
        default_factory=dict,
        description="Request fields for clients that leave them out, such as `temperature`; those that the two APIs "
        "call differently by either name.",
    )
    capabilities: CapabilityOverrides = Field(
        default=CapabilityOverrides(), description="What it can do, where that differs from its provider."
    )

    @model_validator(mode="before")
    @classmethod
    def _expand_two_pass(cls, given: Any) -> Any:
        if not isinstance(given, dict) or "two_pass" not in given:
            return given
        two_pass = given["two_pass"]
        if isinstance(two_pass, bool):
            return {**given, "two_pass": "on" if two_pass else "off"}
        if not isinstance(two_pass, dict):
            return given
        if duplicates := sorted(two_pass.keys() & given.keys()):
            raise PydanticCustomError(
                "two_pass", "write {name} once, in two_pass or beside it", {"name": duplicates[0]}
            )
        return {**given, "two_pass": "on", **two_pass}

    @field_validator("bridge", mode="before")
    @classmethod
    def _read_null_as_empty(cls, given: Any) -> Any:
        return "" if given is None else given

    @field_validator("tool_parser", "text_tool_calls")
    @classmethod
    def _refuse_unknown_parsers(cls, name: str | None, info: ValidationInfo) -> str | None:
        native = "openai" if info.field_name == "tool_parser" else "none"
        if name is None or name == native or name in TOOL_PARSERS or (native == "openai" and name.startswith("vllm:")):
            return name
        context = {"name": name, "known": ", ".join((native, *TOOL_PARSERS))}
        raise PydanticCustomError("parser", "there is no parser {name}; write one of {known}", context)

    @field_validator("profile")
    @classmethod
    def _refuse_unknown_families(cls, name: str | None) -> str | None:
        if name is None or name in MODEL_FAMILIES:
            return name
        context = {"name": name, "known": ", ".join(MODEL_FAMILIES)}
        raise PydanticCustomError("profile", "there is no profile {name}; write one of {known}", context)

    def profile_overrides(self) -> dict[str, Any]:
        """The fields of `Profile` that the operator wrote, over those of the family that was named."""
        family = MODEL_FAMILIES[self.profile].fields if self.profile is not None else {}
        return {**family, **{name: value for name in _PROFILE_FIELDS if (value := getattr(self, name)) is not None}}

    def resolve_capabilities(self, provider: Capabilities) -> Capabilities:
        """The provider's capabilities with the model's own over them."""
        return replace(provider, **self.capabilities.to_overrides())


_PROFILE_FIELDS = [field.name for field in fields(Profile)]
