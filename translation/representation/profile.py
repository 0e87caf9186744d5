"""Facts about a model family that shape how a turn is said to it and how its text is read."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

ParsingFormat: TypeAlias = Literal["direct_response", "think_tags"]
SystemMessages: TypeAlias = Literal["merge_leading", "merge_all", "keep"]
ReplayReasoning: TypeAlias = Literal[
    "reasoning_content", "reasoning", "reasoning_details", "thinking", "think_tags", "none"
]
ForcedTool: TypeAlias = Literal["named", "alone"]
ReplayIds: TypeAlias = Literal["reasoning", "keep", "drop"]
CallSignatures: TypeAlias = Literal["by_model", "placeholder", "none"]
SchemaShim: TypeAlias = Literal["no_empty_required", "no_schema_key", "signed_formats", "no_descriptions"]
TwoPass: TypeAlias = Literal["off", "on", "engine"]
ThinkTag: TypeAlias = Literal["think", "thinking"]
TOOL_PARSERS: Final = ("hermes", "llama", "llama3_json", "mistral", "json", "pythonic")
"""Formats that calls are written in where they come as text."""

ToolValidation: TypeAlias = Literal["drop", "report"]
ThinkingSwitch: TypeAlias = Literal["chat_template_kwargs", "reasoning_enabled", "none"]
ThinkingForm: TypeAlias = Literal["by_model", "adaptive", "budget"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One model family's habits. Every field can be overridden per model in the config under the same name."""

    parsing_format: ParsingFormat = "direct_response"
    """`think_tags`: text between think tags is reasoning. `direct_response`: text is left alone."""
    think_open: bool = False
    """The chat template writes the opening tag, so a reply starts inside it."""
    system_messages: SystemMessages = "merge_leading"
    """`merge_leading`: leading system/developer messages become one, later ones stay where they are;
    `merge_all`: later ones are hoisted into the first (a recorded loss); `keep`: as they came."""
    developer_role: Literal["developer", "system", "user"] = "system"
    """The role a developer message is sent with."""
    reasoning_part: Literal["reasoning_text", "summary_text"] = "reasoning_text"
    """The part of a Responses reasoning item that thoughts come in. They are no summary; `summary_text` is for clients
    that show nothing else."""
    replay_reasoning: ReplayReasoning = "reasoning_content"
    """The assistant message field past reasoning goes back in; `none` drops it with a loss note."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    thinking_switch: ThinkingSwitch = "none"
    """How `thinking: true|false` is said: vLLM's and llama.cpp's `chat_template_kwargs.enable_thinking`, OpenRouter's
    `reasoning.enabled`, or not at all (a loss)."""
    thinking_form: ThinkingForm = "by_model"
    """How the Messages API, Gemini and Ollama are asked to think. `adaptive`: by an effort; `budget`: by a number of
    tokens, or for Ollama by a mere switch; `by_model`: as the name of the model tells. For a name that is not known
    that is `adaptive` in the Messages API, the switch for Ollama, nothing for Gemini."""
    effort_field: Literal["reasoning_effort", "reasoning", "none"] = "reasoning_effort"
    """Chat field for `reasoning.effort`: flat `reasoning_effort`, or OpenRouter's `reasoning: {effort, max_tokens}`."""
    forced_tool: ForcedTool = "named"
    """How a choice of one tool is said. `named`: by its name. `alone`: it is the only one sent, and `required`, for
    llama.cpp's server, which takes any object for `auto` and says so in its own log only."""
    media_in_tool_messages: bool = False
    """The upstream reads images in tool messages; otherwise they move to a user message after the tool messages."""
    extra_params: frozenset[str] = frozenset()
    """Top-level keys outside the API that the upstream understands and that are passed on as they are."""
    two_pass: TwoPass = "off"
    """Thinking and answer as two runs of the engine, so that a budget for thinking holds. `engine`: as one run that
    keeps the budget itself."""
    think_tag: ThinkTag = "think"
    """The tag that two passes open and close around the thinking."""
    max_thinking_tokens: int = 2048
    """Tokens for thinking, where the request sets no budget."""
    max_response_tokens: int | None = None
    """Tokens for the answer after the thinking; None: as many as there is room for."""
    bridge: str | None = "I have thought long enough. I answer now."
    """What ends a thought that is cut off at its budget, before the closing tag."""
    effort_budgets: Mapping[str, int] = field(default_factory=dict)
    """`reasoning.effort` -> tokens for thinking; an effort that is not in it is a share of `max_thinking_tokens`."""
    tool_parser: str = "openai"
    """How calls are read: as the upstream reports them (`openai`), or out of its text, by the parser of this name."""
    text_tool_calls: str = "none"
    """Not `none`: the upstream knows no tools, so they are said in its prompt and read by the parser of this name."""
    single_tool_block: bool = False
    """The answer ends with its first block of calls."""
    tool_validation: ToolValidation = "drop"
    """A call read out of text that does not fit its tool's schema is left out, or said all the same and reported."""
    max_tool_args_bytes: int = 200_000
    """The longest arguments of a call that are read, out of text or as an object; longer ones are marked."""
    empty_reasoning: bool = False
    """In chat a message with calls has a reasoning field, though an empty one: DeepSeek and Kimi refuse it without."""
    replay_ids: ReplayIds = "reasoning"
    """The ids of past items that a Responses upstream is sent: those of `reasoning`, which OpenAI requires, or all that
    are known (`keep`), or none (`drop`), for servers that know no item by its id and refuse it."""
    call_signatures: CallSignatures = "by_model"
    """Where past calls have no signature, Gemini gets the `placeholder` that its documentation names, `by_model` only
    those models that want one. In chat, for which `by_model` is none, it goes into `extra_content`."""
    schema_shims: frozenset[SchemaShim] = frozenset()
    """What is changed of tools: an empty `required` or a `$schema` left out, unsigned formats of numbers said as signed
    ones, functions without their descriptions (a loss)."""
    parallel_tool_calls: bool | None = None
    """What is said of parallel calls where the request has tools and says nothing."""
    max_tool_output_bytes: int = 5_000_000
    """The longest output of a call; of a longer one text is cut, and media are replaced by a note: losses."""
    max_tool_calls_per_turn: int | None = None
    """Calls of one reply after this many are left out, and noted."""
    cite_documents: bool = False
    """The Messages API is asked to cite the files of a request, which it does nowhere by itself. It cannot where an
    answer is held to a schema: there it is not asked."""
    fix_empty_final: bool = False
    """A reply that ends well with neither text nor a call gets a message, of the reasoning where there is any."""


DEFAULT_PROFILE = Profile()


def two_pass_profile(profile: Profile) -> Profile:
    """The profile for thinking and answer as two runs: their text is all there is, so calls are read out of it."""
    parser = "hermes" if profile.tool_parser == "openai" else profile.tool_parser
    return replace(profile, two_pass="on", tool_parser=parser)
