"""The rules of each family of Claude models, by the model's name, and the requests that follow from them."""

from dataclasses import replace

import pytest

from tests.unit.support.items import assistant, user
from tests.unit.translation.messages.upstream.item_blocks import SIGNED, thought
from tests.unit.translation.messages.upstream.lowered_turns import (
    FUNCTION,
    NEW,
    OLD,
    PROFILE,
    TOOL,
    lowered,
    with_limit,
)
from translation.messages.upstream.families import ClaudeFamily, find_claude_family, is_claude
from translation.messages.upstream.lower import lower
from translation.representation.json_types import Json
from translation.representation.loss import Loss, UnknownKey
from translation.representation.turn import Turn

ADAPTIVE = {"type": "adaptive", "display": "summarized"}

RULES: dict[str, tuple[str, str | None, str, bool, bool, list[str]]] = {
    # The documented kinds: when it thinks, how that is turned off, forced tools, whether it binds its thinking and
    # takes sampling parameters; and all forms of names.
    "budget": (
        "when_asked",
        "disabled",
        "without_thinking",
        False,
        True,
        [
            *("claude-3-7-sonnet-20250219", "claude-3.5-haiku", "claude-2.1", "claude-v2:1", "claude-instant"),
            *("claude-instant-1.2", "anthropic.claude-instant-v1", "claude-3-5-sonnet-v2@20241022"),
            *("claude-sonnet-4-0", "claude-opus-4-20250514", "claude-opus-4-1", "claude-4-sonnet"),
            *("claude-haiku-4-5-20251001", "claude-sonnet-4-5@20250929", "claude-sonnet-4.5"),
            *("anthropic.claude-opus-4-5-20251101-v1:0", "anthropic/claude-opus-4.1", "databricks-claude-opus-4-5"),
        ],
    ),
    "4.6": (
        "when_asked",
        "disabled",
        "without_thinking",
        False,
        True,
        ["claude-opus-4-6", "claude-sonnet-4-6", "claude-opus-4.6", "global.anthropic.claude-opus-4-6-v1"],
    ),
    "4.7 and 4.8": (
        "when_asked",
        "disabled",
        "without_thinking",
        False,
        False,
        [
            *("claude-opus-4-7", "claude-opus-4-8", "anthropic/claude-opus-4.7", "anthropic/claude-4.7-opus"),
            *("anthropic.claude-opus-4-8-v1:0", "claude-opus-4-10", "claude-opus-4.10"),
        ],
    ),
    "5": (
        "by_default",
        "disabled",
        "after_thinking",
        False,
        False,
        ["claude-opus-5", "claude-sonnet-5", "claude-sonnet-5-20270101", "global.anthropic.claude-opus-5"],
    ),
    "Fable 5": (
        "always",
        None,
        "after_thinking",
        False,
        False,
        ["claude-fable-5", "claude-mythos-5", "anthropic.claude-fable-5", "claude-fable-5@20260601"],
    ),
    "the newest": (
        "always",
        None,
        "refused",
        True,
        False,
        [
            *("claude-opus-5-5", "anthropic/claude-opus-5.5", "us.anthropic.claude-opus-5-5-v1:0", "Claude-Opus-5-5"),
            *("claude-opus-5-5@20260922", "claude-fable-5-1", "claude-fable-5-2", "claude-mythos-5-1"),
            "claude-mythos-5-2",
        ],
    ),
    "newer than this table": (
        "always",
        None,
        "refused",
        True,
        False,
        ["claude-opus-6", "claude-sonnet-5-6", "claude-haiku-6", "claude-verse-7-1", "claude-opus-10"],
    ),
    "Sonnet 5.5": ("by_default", "between_tools", "refused", True, False, ["claude-sonnet-5-5", "claude-5.5-sonnet"]),
    "Haiku 5.5": ("by_default", "disabled", "without_thinking", True, False, ["anthropic.claude-haiku-5-5"]),
    "Mythos Preview": ("always", None, "refused", False, True, ["anthropic.claude-mythos-preview"]),
    "a name that says nothing": (
        "when_asked",
        "disabled",
        "without_thinking",
        False,
        True,
        ["glm-5", "claude-opus-latest", "mine", "kimi-k2-5"],
    ),
}


@pytest.mark.parametrize(("thinks", "off", "forced", "binds", "samples", "names"), RULES.values(), ids=RULES)
def test_a_model_is_known_by_its_name(
    thinks: str, off: str | None, forced: str, binds: bool, samples: bool, names: list[str]
) -> None:
    for name in names:
        family = find_claude_family(name, PROFILE)
        known = (family.thinks, family.off, family.forced_tools, family.binds_thinking, family.accepts_sampling)
        assert known == (thinks, off, forced, binds, samples), name


@pytest.mark.parametrize("kind", RULES)
def test_only_models_before_adaptive_thinking_take_a_budget(kind: str) -> None:
    *_, names = RULES[kind]
    for name in names:
        family = find_claude_family(name, PROFILE)
        assert (family.takes_budget, family.has_strict_tools) == ((kind == "budget"), kind != "budget"), name


def test_the_profile_decides_over_the_name() -> None:
    budget, adaptive = (replace(PROFILE, thinking_form=form) for form in ("budget", "adaptive"))
    assert find_claude_family("claude-opus-5-5", budget) == ClaudeFamily(takes_budget=True, has_xhigh=False)
    assert find_claude_family("claude-opus-4-5", budget) == find_claude_family("claude-opus-4-5", PROFILE)
    old = find_claude_family("claude-opus-4-5", adaptive)
    assert (old.takes_budget, old.has_strict_tools) == (False, False)
    assert find_claude_family("claude-opus-5-5", adaptive) == find_claude_family("claude-opus-5-5", PROFILE)


OPUS, SONNET, HAIKU, FABLE = "claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5", "claude-fable-5"
SUMMARIZED = with_limit(thinking=ADAPTIVE)
LOW = with_limit(thinking=ADAPTIVE, output_config={"effort": "low"})
FORCED: Json = {"tools": [FUNCTION], "tool_choice": "required"}
NAMED: Json = {"tools": [FUNCTION], "tool_choice": {"type": "function", "name": "f"}}
BETWEEN: Json = {"thinking": True, "unknown_keys": [UnknownKey("thinking.type", "type", {"type": "between_tools"})]}
OFF = with_limit(thinking={"type": "disabled"})
NOTES = with_limit(thinking={"type": "between_tools"})
NOT_ENFORCED = Loss("tool_choice", "not enforced")
AUTO: Json = {"tools": [TOOL], "tool_choice": {"type": "auto"}}
ANY: Json = {"tools": [TOOL], "tool_choice": {"type": "any"}}

REQUESTS: dict[str, tuple[list[str], Json, Json, list[Loss]]] = {
    "nothing, where the model thinks unasked": ([OPUS, SONNET, HAIKU, FABLE, "claude-opus-5"], {}, SUMMARIZED, []),
    "an answer's effort, where the model thinks unasked": (
        [OPUS, "claude-sonnet-5"],
        {"reasoning": {"effort": "low"}, "thinks_by_effort": False},
        LOW,
        [],
    ),
    "no thinking, where it is always on": (
        [OPUS, FABLE, "claude-mythos-preview", "claude-opus-6"],
        {"thinking": False, "reasoning": {"effort": "high"}},
        LOW,
        [Loss("thinking", "false as low")],
    ),
    "no effort, where it is always on": (
        [OPUS, FABLE],
        {"reasoning": {"effort": "none"}},
        LOW,
        [Loss("reasoning.effort", "none as low")],
    ),
    "no thinking, where it can be forbidden": (["claude-opus-5", HAIKU], {"thinking": False}, OFF, []),
    "no thinking, by the newest Sonnet's word": ([SONNET], {"reasoning": {"effort": "none"}}, NOTES, []),
    "thinking between tools": ([SONNET], BETWEEN, NOTES, []),
    "thinking between tools, with an effort": (
        [SONNET],
        {**BETWEEN, "reasoning": {"effort": "medium"}},
        NOTES | {"output_config": {"effort": "medium"}},
        [],
    ),
    "thinking between tools, with an effort that excludes it": (
        [SONNET],
        {**BETWEEN, "reasoning": {"effort": "max"}},
        NOTES | {"output_config": {"effort": "high"}},
        [Loss("reasoning.effort", "max as high")],
    ),
    "thinking between tools, of a model that does not know it": (
        [OPUS, "claude-opus-4-6", "claude-sonnet-6"],
        BETWEEN,
        SUMMARIZED,
        [Loss("thinking.type", "dropped")],
    ),
    "a budget": (
        [OPUS, "claude-opus-5"],
        {"reasoning": {"max_tokens": 2000}},
        SUMMARIZED,
        [Loss("reasoning.max_tokens", "dropped")],
    ),
    "a forced tool, where it is refused": ([OPUS, SONNET], FORCED, SUMMARIZED | AUTO, [NOT_ENFORCED]),
    "a forced tool by its name, where it is refused": ([OPUS, SONNET], NAMED, SUMMARIZED | AUTO, [NOT_ENFORCED]),
    "a forced tool alone, where it is refused": (
        [OPUS],
        {**FORCED, "parallel_tool_calls": False},
        SUMMARIZED | AUTO | {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        [NOT_ENFORCED],
    ),
    "a tool that may be called": ([OPUS], {**FORCED, "tool_choice": "auto"}, SUMMARIZED | AUTO, []),
    "no tool": (
        [OPUS], {**FORCED, "tool_choice": "none"}, SUMMARIZED | AUTO | {"tool_choice": {"type": "none"}}, []
    ),
    "a forced tool after thinking": (
        [FABLE, "claude-opus-5", "claude-sonnet-5"],
        {**FORCED, "reasoning": {"effort": "low"}},
        LOW | ANY,
        [],
    ),
    "a forced tool, before which the model does not think": (
        [HAIKU],
        {**FORCED, "reasoning": {"effort": "low"}},
        LOW | ANY,
        [Loss("reasoning", "not where a tool is forced")],
    ),
    "a forced tool without a word about thinking": ([HAIKU, "claude-opus-5"], FORCED, SUMMARIZED | ANY, []),
}  # fmt: skip


@pytest.mark.parametrize(("models", "given", "body", "losses"), REQUESTS.values(), ids=REQUESTS)
def test_a_request_follows_the_rules_of_its_model(
    models: list[str], given: Json, body: Json, losses: list[Loss]
) -> None:
    for model in models:
        assert lowered(model, **given) == (body, losses), model


HISTORY = [user("a"), thought(SIGNED), assistant("b"), user("c")]
BINDING: Json = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}
BETAS: Json = {"anthropic_beta": ["thinking-binding-controls-2026-08-01"]}

REPLAYS: dict[str, tuple[str, Json, Json, list[Loss], bool]] = {
    "bound thinking": (OPUS, {}, with_limit(thinking=ADAPTIVE | BINDING) | BETAS, [], True),
    "bound thinking of a model that thinks less": (
        HAIKU, {"thinking": True}, with_limit(thinking=ADAPTIVE | BINDING) | BETAS, [], True
    ),
    "no past thinking": (OPUS, {"items": [user("a")]}, SUMMARIZED, [], False),
    "thinking that is not bound": ("claude-opus-5", {}, SUMMARIZED, [], True),
    "thinking that is turned off": (HAIKU, {"thinking": False}, OFF, [Loss("input", "reasoning dropped")], False),
    "notes between calls": (SONNET, {"thinking": False}, NOTES, [], True),
}  # fmt: skip


@pytest.mark.parametrize(("model", "given", "body", "losses", "is_kept"), REPLAYS.values(), ids=REPLAYS)
def test_thinking_of_a_changed_conversation_is_dropped_and_not_refused(
    model: str, given: Json, body: Json, losses: list[Loss], is_kept: bool
) -> None:
    turn: Json = {"items": HISTORY, **given}
    assert lowered(model, **turn) == (body, losses)
    messages = lower(Turn(model=model, **turn), PROFILE).body["messages"]
    kinds = [block["type"] for message in messages for block in message["content"]]
    assert ("thinking" in kinds) is is_kept


def test_without_the_binding_the_api_may_refuse_a_changed_conversation() -> None:
    profile = replace(PROFILE, block_binding=False)
    assert lowered(OPUS, profile, items=HISTORY) == (SUMMARIZED, [])
    off: Json = {"items": HISTORY, "thinking": False}
    assert lowered(HAIKU, profile, **off) == (OFF, [Loss("input", "reasoning dropped")])


LIMITS: dict[str, tuple[str, Json, int]] = {
    # With 4,000 tokens for the answer and 16,000 for thinking.
    "thinking unasked": (OPUS, {}, 20_000),
    "thinking unasked, with an effort": (OPUS, {"reasoning": {"effort": "low"}, "thinks_by_effort": False}, 8_000),
    "thinking that is asked for": (NEW, {"thinking": True}, 20_000),
    "an effort": (NEW, {"reasoning": {"effort": "medium"}}, 12_000),
    "an effort with a budget of its own": (NEW, {"reasoning": {"effort": "high"}}, 5_000),
    "a budget, which such a model does not take": (OPUS, {"reasoning": {"max_tokens": 2_000}}, 6_000),
    "thinking that cannot be turned off": (OPUS, {"thinking": False}, 8_000),
    "a limit of the request": (OPUS, {"max_output_tokens": 100}, 100),
    "no thinking": (HAIKU, {"thinking": False}, 4_000),
    "thinking by a budget": (OLD, {"reasoning": {"max_tokens": 2_000}}, 6_000),
}


@pytest.mark.parametrize(("model", "given", "limit"), LIMITS.values(), ids=LIMITS)
def test_the_operators_limit_of_answers_holds_beside_thinking(model: str, given: Json, limit: int) -> None:
    profile = replace(PROFILE, max_thinking_tokens=16_000, max_response_tokens=4_000, effort_budgets={"high": 1_000})
    assert lowered(model, profile, **given)[0]["max_tokens"] == limit


@pytest.mark.parametrize("kind", RULES)
def test_the_whole_table_is_of_claudes(kind: str) -> None:
    *_, names = RULES[kind]
    assert [name for name in names if not is_claude(name)] == (
        ["glm-5", "mine", "kimi-k2-5"] if kind == "a name that says nothing" else []
    )
