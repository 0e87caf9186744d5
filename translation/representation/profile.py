"""Profiles: facts about a model family that decide how its requests are written and how its text is parsed."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, GetPydanticSchema

from translation.validation import Name

ParsingFormat: TypeAlias = Literal["direct_response", "think_tags", "leading_think_tags"]
SystemMessages: TypeAlias = Literal["merge_leading", "merge_all", "keep"]
ReasoningPart: TypeAlias = Literal["reasoning_text", "summary_text"]
ReplayReasoning: TypeAlias = Literal[
    "reasoning_content", "reasoning", "reasoning_details", "thinking", "think_tags", "none"
]
ForcedTool: TypeAlias = Literal["named", "alone"]
ReplayIds: TypeAlias = Literal["reasoning", "keep", "drop"]
CallSignatures: TypeAlias = Literal["by_model", "placeholder", "none"]
SchemaShim: TypeAlias = Literal[
    "no_empty_required", "no_schema_key", "signed_formats", "no_descriptions", "array_items", "plain_patterns"
]
TwoPass: TypeAlias = Literal["off", "on", "engine"]
EmptyFinalFix: TypeAlias = bool | Literal["retry"]
ReasoningEffort: TypeAlias = Annotated[
    str,
    GetPydanticSchema(lambda _, build: build(Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"])),
]
"""An effort that the configuration may set a budget for. Requests may have others."""
CacheTtl: TypeAlias = Literal["5m", "1h"]
ThinkTag: TypeAlias = Literal["think", "thinking"]
TOOL_PARSERS: Final = ("hermes", "llama", "llama3_json", "mistral", "json", "pythonic")
"""The formats of tool calls in text that a parser exists for: the configuration accepts these names."""

ToolNameForm: TypeAlias = Literal["openai", "anthropic", "gemini", "any"]
ToolValidation: TypeAlias = Literal["drop", "report"]
ThinkingSwitch: TypeAlias = Literal["chat_template_kwargs", "reasoning_enabled", "thinking_type", "none"]
RawTextField: TypeAlias = Literal["reasoning_format", "none"]
RelayedHistory: TypeAlias = Literal["by_model", "keep", "repair"]
ThinkingForm: TypeAlias = Literal["by_model", "adaptive", "budget"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The facts about one model family. The configuration of a model has a key for each of them.

    The docstring of a field is the description of its key in docs/configuration.md. A key that is left out has the
    value of the provider's type and the model's family, and None stands here for what no default describes.
    """

    parsing_format: ParsingFormat = "direct_response"
    """`think_tags`: text between think tags, or Mistral's `[THINK]`, is reasoning. `leading_think_tags`: only at the
    beginning of a reply of a chat server. `direct_response`: text remains unchanged. If left out, the model's
    [family](providers.md#families-of-models) decides."""
    tool_parser: Name = "openai"
    """How tool calls are parsed. `openai`: as the upstream reports them. `hermes`, `llama`, `llama3_json`, `mistral`,
    `json` and `pythonic` parse them from the text in that format. On `vllm_inprocess`, `vllm:NAME` is vLLM's own parser
    of that name. With two passes the default is the format of the model's [family](providers.md#families-of-models), or
    `hermes`."""
    text_tool_calls: Name = "none"
    """For upstreams without tools: tools are written into the prompt, and calls are parsed from the text, in the format
    `hermes`, `llama`, `llama3_json`, `mistral`, `json` or `pythonic`. `none` does neither."""
    single_tool_block: bool = False
    """Whether a reply ends after its first block of calls, as with `parallel_tool_calls: false`."""
    tool_validation: ToolValidation = "drop"
    """What happens to a call parsed from text whose arguments do not fit the tool's schema: `drop` omits it, `report`
    keeps it. Both add a [warning](tools.md#calls-in-text). With `drop` a stream has a call when it is complete, with
    `report` as it arrives."""
    max_tool_args_bytes: Annotated[int, Field(ge=1)] = 200_000
    """The longest arguments of a call that are parsed, in bytes: from text, or as an object. Longer arguments remain
    text and are marked."""
    max_tool_output_bytes: Annotated[int, Field(ge=1)] = 5_000_000
    """The longest output of a call, in bytes. In a longer output, text is cut with `[truncated]`, and media are
    replaced by a note. Both are losses."""
    max_stop_chars: Annotated[int, Field(ge=1)] = 1_000
    """The most characters of all stop sequences of a request, where the gateway
    [applies them itself](extensions.md#stop-sequences). Requests with more are refused."""
    max_tool_calls_per_turn: Annotated[int, Field(ge=1)] | None = None
    """The most calls in one reply. Further calls are omitted, with a note. If left out, there is no limit."""
    # The default of `anthropic` is in its own profile.
    cite_documents: bool = False
    """Whether `anthropic` is asked to cite the files of a request, unless the answer must fit a schema. The default is
    `true`. `false` is for hosts without citations, and saves the tokens of citations."""
    fix_empty_final: EmptyFinalFix = False
    """`true`: a reply that completes with neither text nor a valid call gets a message: its reasoning, or a statement
    that there is no answer. `retry`: the model is asked once more, with a message of the user that asks for the
    answer, and a second reply without an answer gets that message."""
    two_pass: TwoPass = "off"
    """Whether to generate thinking and answer in two passes of the engine, which enforces the thinking budget: `true`,
    `false`, or `engine` for one pass in which vLLM enforces the budget. May also be a mapping with the five keys
    below."""
    think_tag: ThinkTag = "think"
    """The tag around the thinking, with two passes."""
    max_thinking_tokens: Annotated[int, Field(ge=0)] = 2048
    """The most tokens for thinking, if the request sets no budget."""
    max_response_tokens: Annotated[int, Field(ge=1)] | None = None
    """The most tokens for the answer after the thinking. If left out, the room in the context is the limit."""
    bridge: str | None = "I have thought long enough. I answer now."
    """Text that ends the thinking if it is cut off at its budget. An empty text or `null` adds none."""
    effort_budgets: Mapping[ReasoningEffort, Annotated[int, Field(ge=0)]] = field(default_factory=dict)
    """The most tokens for thinking, by `reasoning.effort`. An effort that is not listed gets a share of
    `max_thinking_tokens`: `minimal` a sixteenth, `low` a quarter, `medium` half, `high` and above all of it."""
    think_open: bool | None = None
    """With `think_tags`: `true` if the chat template ends with the opening think tag, so that replies start inside it,
    `false` if it does not. If left out, a reply's text before its first tag is held back: it is reasoning if that tag
    is a closing tag, and the answer if there is no tag. `false` streams the text of replies without tags."""
    # What `merge_all` moves is a loss.
    system_messages: SystemMessages = "merge_leading"
    """`merge_leading`: leading system and developer messages become one. `merge_all`: later messages too. `keep`: they
    remain unchanged."""
    volatile_lines: tuple[Name, ...] = ()
    """Patterns, with `*` and `?`, of whole lines in the system prompt that change from request to request. They are
    moved to the [end of the newest message](prefix-cache.md), so that the upstream can reuse its prompt cache."""
    removed_lines: tuple[Name, ...] = ()
    """Patterns, with `*` and `?`, of whole lines in the system prompt that are no use to the model. They are
    [removed](prefix-cache.md), which is no loss. The default contains Claude Code's billing header, except for
    `anthropic` and `scripted`. With `[]` no line is removed."""
    # Their places are the ends of the system prompt and of the messages.
    cache_marks: Mapping[Name, CacheTtl] = field(default_factory=dict)
    """The models of a chat upstream that cache a prompt only up to a mark (`cache_control`), by patterns, with `*` and
    `?`, of the upstream's names. The value is the longest time that the mark may ask for: `5m` or `1h`. Requests that
    ask for a cache are [sent with marks](prefix-cache.md#what-else-stays-the-same)."""
    developer_role: Literal["developer", "system", "user"] = "system"
    """The role with which a developer message is sent."""
    reasoning_part: ReasoningPart = "reasoning_text"
    """The type of the parts of a reasoning item for requests without `reasoning.summary`. Requests with
    `reasoning.summary` always get `summary_text`. Write `summary_text` for Responses clients that show summaries only
    and do not request them."""
    reasoning_fields: tuple[Name, ...] = ()
    """Fields in which a chat upstream sends its reasoning as text, beside those that are always read. All APIs
    show it as reasoning. Past reasoning is sent back in the first of them, if `replay_reasoning` is not another form
    than text."""
    # With `none` it is a loss.
    replay_reasoning: ReplayReasoning = "reasoning_content"
    """The field in which past reasoning is sent. `think_tags`: inside the text. `none`: past reasoning is not sent."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """The chat field that limits the length of the answer."""
    # `none` is a loss.
    thinking_switch: ThinkingSwitch = "none"
    """How the request field `thinking` is sent to a chat upstream. `chat_template_kwargs`: `enable_thinking` there, as
    vLLM and llama.cpp read it. `reasoning_enabled`: `reasoning.enabled`, for OpenRouter. `thinking_type`:
    `thinking.type`, which is `enabled` or `disabled`, for DeepSeek, Kimi and GLM. `none`: it is not sent."""
    thinking_form: ThinkingForm = "by_model"
    """The form in which `anthropic`, `gemini` and `ollama` are asked to think. `adaptive`: an effort. `budget`: a
    number of tokens, or a switch on `ollama`. `by_model`: the model's name decides. For an unknown name this means
    `adaptive` on `anthropic`, the switch on `ollama`, and nothing on `gemini`."""
    # `reasoning` is OpenRouter's `reasoning: {effort, max_tokens}`.
    effort_field: Literal["reasoning_effort", "reasoning", "none"] = "reasoning_effort"
    """The chat field for the reasoning effort."""
    raw_text_field: RawTextField = "none"
    """The chat field that asks a server which separates thinking itself to leave it in the text. It is sent with
    `parsing_format: direct_response`. `reasoning_format` is the field of llama.cpp, and the default for its types.
    `none`: no field is sent."""
    # llama.cpp's server needs `alone`, with the choice `required`: it treats any object as `auto`, and reports it in
    # its own log only.
    forced_tool: ForcedTool = "named"
    """The form in which a `tool_choice` of one tool is sent. `named`: the name of the tool. `alone`: the request has no
    other tool, for upstreams that ignore the name, and no format of the answer, which would prevent a required
    call."""
    # The user message follows all tool messages of the turn.
    media_in_tool_messages: bool = False
    """Whether the upstream accepts images in tool messages. Otherwise images follow in a user message."""
    # DeepSeek and Kimi refuse a message without one.
    empty_reasoning: bool = False
    """Whether chat messages with calls always have a reasoning field, which may be empty, for upstreams that refuse
    messages without it."""
    # OpenAI requires those of reasoning. `drop` is for servers that store no items and refuse an unknown id.
    replay_ids: ReplayIds = "reasoning"
    """The ids of past items that are sent to a Responses upstream: only ids of reasoning items (`reasoning`), all ids
    (`keep`), or none (`drop`)."""
    # In chat, the placeholder goes into `extra_content`.
    call_signatures: CallSignatures = "by_model"
    """The signature with which past calls that have none are sent to Gemini: Gemini's `placeholder`, no signature
    (`none`), or what the model requires (`by_model`; in chat, no signature)."""
    tool_names: ToolNameForm = "openai"
    """The names of tools that the upstream accepts. `openai`: up to 64 letters, digits, underscores and dashes.
    `anthropic`: up to 128 of them. `gemini`: up to 64, also dots and colons, and first a letter or an underscore.
    `any`: names are sent as they are. A tool with another name is sent under [one that is
    accepted](tools.md#names-of-tools), and clients get its own name back."""
    # The default of `anthropic` is in its own profile.
    relayed_history: RelayedHistory = "keep"
    """What happens to the history of a relayed request of the Messages API. `repair`: what other models wrote, and
    Anthropic's API refuses, is mended: calls get other ids, and blank texts and thinking without a signature are left
    out. `keep`: it is sent as it is. `by_model`: it is mended for a Claude, by the name that the upstream gets, and for
    every model of Anthropic's own server. The default is `by_model` for `anthropic`, and `keep` for all others."""
    # The default of `anthropic` is in its own profile. What is dropped is a loss, so strict requests never ask for it.
    block_binding: bool = False
    """Whether `anthropic` is asked to drop past thinking if something before it has changed, where newer models would
    refuse the request. The default is `true`. `false` is for proxies that do not forward the header
    `anthropic-beta`."""
    schema_shims: frozenset[SchemaShim] = frozenset()
    """Changes to the schemas of tools and of response formats. `no_empty_required` omits an empty `required`,
    `no_schema_key` omits `$schema`, `signed_formats` replaces unsigned number formats by signed ones,
    `no_descriptions` omits the descriptions of functions (a loss), `array_items` adds `items` to arrays without it,
    `plain_patterns` omits patterns with Unicode classes such as `\\p{L}` (a loss)."""
    parallel_tool_calls: bool | None = None
    """The value of `parallel_tool_calls` for requests with tools that leave it out."""
    extra_params: frozenset[Name] = frozenset()
    """Request fields that are forwarded unchanged, in addition to the fields of the provider's type."""
    refused_params: frozenset[Name] = frozenset()
    """Fields of chat requests that the server refuses, although the reply means the same without them, such as
    `prompt_cache_key`, in addition to the fields of the provider's type. They are left out, which is a loss."""


DEFAULT_PROFILE = Profile()


def two_pass_profile(profile: Profile) -> Profile:
    """Returns the profile with `two_pass` on. The engine returns text only, so a parser reads the calls from it."""
    parser = "hermes" if profile.tool_parser == "openai" else profile.tool_parser
    return replace(profile, two_pass="on", tool_parser=parser)
