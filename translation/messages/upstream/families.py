"""Facts about Claude's model families, found by a model's name, at Anthropic and at other hosts.

Thinking: https://platform.claude.com/docs/en/build-with-claude/thinking-troubleshooting (the table of models)
Forced tools: https://platform.claude.com/docs/en/build-with-claude/thinking-tool-workflows, and the page of each model,
    such as https://platform.claude.com/docs/en/models/opus-5-5/whats-new-opus-5-5
Bound thinking: https://platform.claude.com/docs/en/build-with-claude/preserved-thinking
"""

import re
from typing import Final, Literal, NamedTuple

from translation.representation.profile import Profile


class ClaudeFamily(NamedTuple):
    """Models with the same rules. The defaults are for a model whose name says nothing about it."""

    thinks: Literal["when_asked", "by_default", "always"] = "when_asked"
    """When a model thinks. `by_default`: unless it is forbidden. `always`: it cannot be forbidden."""
    off: Literal["disabled", "between_tools"] | None = "disabled"
    """The type of `thinking` that turns it off. None if the API refuses all of them."""
    takes_budget: bool = False
    """Whether thinking is set by a number of tokens, which the API then requires."""
    forced_tools: Literal["after_thinking", "without_thinking", "refused"] = "without_thinking"
    """What becomes of a `tool_choice` that requires a call. `without_thinking`: the model does not think before it."""
    binds_thinking: bool = False
    """Whether the API refuses past thinking if anything before it has changed, unless it is told to drop it."""
    accepts_sampling: bool = True
    """Whether the API takes `temperature`, `top_p` and `top_k`."""
    has_xhigh: bool = True
    """Whether the model has the effort `xhigh`. https://platform.claude.com/docs/en/build-with-claude/effort"""
    has_strict_tools: bool = True
    """Whether the model enforces the schemas of strict tools."""


_BY_BUDGET: Final = ClaudeFamily(takes_budget=True, has_xhigh=False, has_strict_tools=False)
_SINCE_4_6: Final = ClaudeFamily(has_xhigh=False)
_SINCE_4_7: Final = ClaudeFamily(accepts_sampling=False)
_SINCE_5: Final = _SINCE_4_7._replace(thinks="by_default", forced_tools="after_thinking")
_FABLE_5: Final = _SINCE_5._replace(thinks="always", off=None)
_NEWEST: Final = _FABLE_5._replace(forced_tools="refused", binds_thinking=True)
"""The most restricted family, to which the newest models belong. A request that it accepts, the others accept too."""

_FAMILIES: Final = (
    # Models that are newer than this table: what the newest known family refuses, they are not sent.
    ("", (5, 6), _NEWEST),
    ("sonnet", (5, 5), _NEWEST._replace(thinks="by_default", off="between_tools")),
    ("haiku", (5, 5), _NEWEST._replace(thinks="by_default", off="disabled", forced_tools="without_thinking")),
    ("", (5, 5), _NEWEST),
    ("fable|mythos", (5, 1), _NEWEST),
    ("fable|mythos", (5, 0), _FABLE_5),
    ("", (5, 0), _SINCE_5),
    ("", (4, 7), _SINCE_4_7),
    ("", (4, 6), _SINCE_4_6),
    ("", (0, 0), _BY_BUDGET),
)
"""(pattern of a line of models, their first version, their family). The first row that fits counts."""

_PREVIEW: Final = ("mythos-preview", ClaudeFamily("always", off=None, forced_tools="refused"))
"""A model without a version, and its family."""

_INSTANT: Final = "claude-instant"
"""The beginning of names of old models that may have no version."""

_VERSION: Final = re.compile(r"claude-(?:[a-z]+-)?v?(\d{1,2})(?!\d)(?:[-.](\d{1,2})(?!\d))?")
"""Finds the numbers of a version, also in `us.anthropic.claude-opus-4-6-v1` and `claude-sonnet-4-5@20250929`. A name
may have one, two or none of them, before the line of the model or after it. A date is no version."""


_CLAUDE: Final = "claude"
"""What the names of all models of this table contain, at Anthropic and at other hosts."""


def is_claude(model: str) -> bool:
    """Whether a model is a Claude by its name, which may have no version, or one that is newer than this table."""
    return _CLAUDE in model.lower()


def find_claude_family(model: str, profile: Profile) -> ClaudeFamily:
    """Returns the family of a model. `thinking_form` of the profile takes precedence over what the name says.

    A name without a version may be an operator's own, or of a model of another vendor: it gets the rules that most
    models share, so that no restriction of the newest Claude applies to it.
    """
    named = _family_by_name(model)
    if profile.thinking_form == "budget":
        return named if named.takes_budget else _BY_BUDGET._replace(has_strict_tools=named.has_strict_tools)
    if profile.thinking_form == "adaptive" and named.takes_budget:
        return _SINCE_4_6._replace(has_strict_tools=named.has_strict_tools)
    return named


def _family_by_name(model: str) -> ClaudeFamily:
    name = model.lower()
    if _PREVIEW[0] in name:
        return _PREVIEW[1]
    numbers = _VERSION.search(name)
    if numbers is None:
        return _BY_BUDGET if _INSTANT in name else ClaudeFamily()
    version = (int(numbers[1]), int(numbers[2] or 0))
    return next(family for line, first, family in _FAMILIES if version >= first and re.search(line, name))
