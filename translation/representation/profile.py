"""Profiles: facts about a model family that decide how its requests are written and how its text is parsed."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

ParsingFormat: TypeAlias = Literal["direct_response", "think_tags", "leading_think_tags"]
SystemMessages: TypeAlias = Literal["merge_leading", "merge_all", "keep"]
ReasoningPart: TypeAlias = Literal["reasoning_text", "summary_text"]
ReplayReasoning: TypeAlias = Literal[
    "reasoning_content", "reasoning", "reasoning_details", "thinking", "think_tags", "none"
]
ForcedTool: TypeAlias = Literal["named", "alone"]
ReplayIds: TypeAlias = Literal["reasoning", "keep", "drop"]
CallSignatures: TypeAlias = Literal["by_model", "placeholder", "none"]
SchemaShim: TypeAlias = Literal["no_empty_required", "no_schema_key", "signed_formats", "no_descriptions"]
TwoPass: TypeAlias = Literal["off", "on", "engine"]
EmptyFinalFix: TypeAlias = bool | Literal["retry"]
ThinkTag: TypeAlias = Literal["think", "thinking"]
TOOL_PARSERS: Final = ("hermes", "llama", "llama3_json", "mistral", "json", "pythonic")
"""The formats of tool calls in text that a parser exists for."""

ToolValidation: TypeAlias = Literal["drop", "report"]
ThinkingSwitch: TypeAlias = Literal["chat_template_kwargs", "reasoning_enabled", "none"]
RawTextField: TypeAlias = Literal["reasoning_format", "none"]
ThinkingForm: TypeAlias = Literal["by_model", "adaptive", "budget"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The facts about one model family. The configuration of a model can override every field by its name."""

    parsing_format: ParsingFormat = "direct_response"
    """`think_tags`: text between think tags is reasoning. `leading_think_tags`: only at the beginning of a translated
    reply of a chat server. `direct_response`: text is not changed."""
    raw_text_field: RawTextField = "none"
    """The chat field that asks a server which separates thinking itself to leave it in the text, as it does with
    `parsing_format: direct_response`: llama.cpp's `reasoning_format`."""
    think_open: bool | None = None
    """Whether the chat template writes the opening think tag, so that a reply starts inside it. None: unknown, so with
    `think_tags` text before the first tag is held back, and is reasoning if that tag is a closing tag."""
    system_messages: SystemMessages = "merge_leading"
    """`merge_leading`: leading system and developer messages become one, later ones stay where they are. `merge_all`:
    later ones are moved into the first, which is a loss. `keep`: nothing is changed."""
    volatile_lines: tuple[str, ...] = ()
    """Patterns of lines in the instructions and leading system messages that change from request to request.

    They are moved to the end of the newest message, so that the upstream can reuse its cache of the prompt.
    """
    developer_role: Literal["developer", "system", "user"] = "system"
    """The role that a developer message is sent with."""
    reasoning_part: ReasoningPart = "reasoning_text"
    """The type of part that holds reasoning in a Responses reasoning item, if the request has no `reasoning.summary`.
    With that parameter it is `summary_text`."""
    replay_reasoning: ReplayReasoning = "reasoning_content"
    """The field of an assistant message that past reasoning is sent back in. `none` drops it, which is a loss."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    thinking_switch: ThinkingSwitch = "none"
    """The form of `thinking: true|false`: `chat_template_kwargs.enable_thinking` of vLLM and llama.cpp,
    `reasoning.enabled` of OpenRouter, or none, which is a loss."""
    thinking_form: ThinkingForm = "by_model"
    """The form of thinking in requests of the Messages API, Gemini and Ollama.

    `adaptive`: an effort. `budget`: a number of tokens, or for Ollama an on/off switch. `by_model`: the name of the
    model decides. An unknown name means `adaptive` in the Messages API, the switch for Ollama, and nothing for Gemini.
    """
    effort_field: Literal["reasoning_effort", "reasoning", "none"] = "reasoning_effort"
    """The chat field for `reasoning.effort`: `reasoning_effort`, or OpenRouter's `reasoning: {effort, max_tokens}`."""
    forced_tool: ForcedTool = "named"
    """The form of a `tool_choice` of one tool. `named`: its name.

    `alone`: no other tool is sent, and the choice is `required`. llama.cpp's server needs that: it treats any object as
    `auto` and reports it in its own log only.
    """
    media_in_tool_messages: bool = False
    """Whether the upstream reads images in tool messages. If not, they follow in a user message after those."""
    extra_params: frozenset[str] = frozenset()
    """Top-level keys outside the API that the upstream understands. They are sent unchanged."""
    two_pass: TwoPass = "off"
    """`on`: thinking and answer are two runs of the engine, so that the budget for thinking is enforced. `engine`: they
    are one run, in which the engine enforces the budget itself."""
    think_tag: ThinkTag = "think"
    """The name of the tag around the thinking with `two_pass`."""
    max_thinking_tokens: int = 2048
    """The budget for thinking in tokens, if the request sets none."""
    max_response_tokens: int | None = None
    """The limit of the answer after the thinking, in tokens. None: the rest of the context."""
    bridge: str | None = "I have thought long enough. I answer now."
    """The text that is inserted before the closing tag where thinking is cut off at its budget. None: no text."""
    effort_budgets: Mapping[str, int] = field(default_factory=dict)
    """`reasoning.effort` -> tokens for thinking. Any other effort stands for a share of `max_thinking_tokens`."""
    tool_parser: str = "openai"
    """The way in which calls are read. `openai`: the upstream reports them.

    Any other name: that parser reads them from the text.
    """
    text_tool_calls: str = "none"
    """For upstreams without tools: the tools are described in the prompt, and the parser of this name reads the calls
    from the text. `none` does neither."""
    single_tool_block: bool = False
    """Whether the answer ends with its first block of calls."""
    tool_validation: ToolValidation = "drop"
    """The treatment of a call in text that does not fit its tool's schema. `drop` leaves it out, `report` sends it.

    Both add a warning.
    """
    max_tool_args_bytes: int = 200_000
    """The longest arguments of a call that are parsed, in bytes: from text, or as an object. Longer ones stay text and
    get a warning."""
    empty_reasoning: bool = False
    """Whether a chat message with calls gets an empty reasoning field if it has none. DeepSeek and Kimi refuse a
    message without one."""
    replay_ids: ReplayIds = "reasoning"
    """The past items whose ids are sent to a Responses upstream.

    `reasoning`: reasoning items, as OpenAI requires. `keep`: all items. `drop`: none, for servers that store no items
    and refuse an unknown id.
    """
    call_signatures: CallSignatures = "by_model"
    """The signature that Gemini is sent for a past call without one.

    `placeholder`: the placeholder that Gemini's documentation names. `by_model`: the placeholder, if the model requires
    a signature. `none`: nothing. In chat, the placeholder goes into `extra_content`, and `by_model` sends nothing.
    """
    schema_shims: frozenset[SchemaShim] = frozenset()
    """Changes to tools: `no_empty_required` removes an empty `required`, `no_schema_key` removes `$schema`,
    `signed_formats` replaces unsigned number formats by signed ones, `no_descriptions` removes the descriptions of
    functions, which is a loss."""
    parallel_tool_calls: bool | None = None
    """The `parallel_tool_calls` of requests that have tools and do not set it."""
    max_tool_output_bytes: int = 5_000_000
    """The longest output of a call, in bytes. In a longer one text is truncated and media are replaced by a note. Both
    are losses."""
    max_tool_calls_per_turn: int | None = None
    """The number of calls in one reply. Further calls are left out with a warning. None sets no limit."""
    cite_documents: bool = False
    """Whether the Messages API is told to cite the files of a request, which it does not do by default.

    It cannot cite in an answer that must match a schema, so such requests are not changed.
    """
    fix_empty_final: EmptyFinalFix = False
    """Whether a completed reply without text and calls gets a message. Its text is the reasoning, or a note that there
    is no answer. `retry`: the turn is generated once more before that."""


DEFAULT_PROFILE = Profile()


def two_pass_profile(profile: Profile) -> Profile:
    """Returns the profile with `two_pass` on. The engine returns text only, so a parser reads the calls from it."""
    parser = "hermes" if profile.tool_parser == "openai" else profile.tool_parser
    return replace(profile, two_pass="on", tool_parser=parser)
