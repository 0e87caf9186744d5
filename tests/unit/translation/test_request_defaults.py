"""Defaults that an operator writes once and that both APIs understand."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import pytest

from translation.chat.client.defaults import add_defaults as add_chat_defaults
from translation.gemini.client.defaults import add_defaults as add_gemini_defaults
from translation.messages.client.defaults import add_defaults as add_messages_defaults
from translation.ollama.client.defaults import add_defaults as add_ollama_defaults
from translation.representation.json_types import Json
from translation.request_defaults import find_common_defaults, flatten_thinking
from translation.responses.client.defaults import add_defaults as add_responses_defaults

AddDefaults: TypeAlias = Callable[[Json, Json], Json]

_ADDERS = {"chat": add_chat_defaults, "messages": add_messages_defaults, "responses": add_responses_defaults}

DEFAULTS: dict[str, tuple[str, Json, Json, Json]] = {
    "what is left out is added": ("chat", {"temperature": 0.5}, {}, {"temperature": 0.5}),
    "what is given stays": ("chat", {"temperature": 0.5}, {"temperature": 1}, {"temperature": 1}),
    "null is left out": ("chat", {"temperature": 0.5}, {"temperature": None}, {"temperature": 0.5}),
    "chat's limit, in Responses": ("responses", {"max_tokens": 9}, {}, {"max_output_tokens": 9}),
    "chat's newer limit, in Responses": ("responses", {"max_completion_tokens": 9}, {}, {"max_output_tokens": 9}),
    "the Responses API's limit, in chat": ("chat", {"max_output_tokens": 9}, {}, {"max_completion_tokens": 9}),
    "a limit by its other name is given": (
        "chat",
        {"max_tokens": 9},
        {"max_completion_tokens": 5},
        {"max_completion_tokens": 5},
    ),
    "chat's effort, in Responses": ("responses", {"reasoning_effort": "low"}, {}, {"reasoning": {"effort": "low"}}),
    "the Responses API's effort, in chat": ("chat", {"reasoning": {"effort": "low"}}, {}, {"reasoning_effort": "low"}),
    "more than an effort is an upstream's own": (
        "chat",
        {"reasoning": {"effort": "low", "max_tokens": 5}},
        {},
        {"reasoning": {"effort": "low", "max_tokens": 5}},
    ),
    "an effort beside what is given": (
        "responses",
        {"reasoning_effort": "low"},
        {"reasoning": {"effort": None, "summary": "auto"}},
        {"reasoning": {"effort": "low", "summary": "auto"}},
    ),
    "a verbosity beside what is given": (
        "responses",
        {"verbosity": "low"},
        {"text": {"format": {"type": "text"}}},
        {"text": {"verbosity": "low", "format": {"type": "text"}}},
    ),
    "a stop, in Messages": ("messages", {"stop": ["x"]}, {}, {"stop_sequences": ["x"]}),
    "an effort, in Messages, beside what is given": (
        "messages",
        {"reasoning_effort": "low", "verbosity": "low"},
        {"output_config": {"effort": None, "format": {}}},
        {"output_config": {"effort": "low", "format": {}}},
    ),
    "the Responses API's effort, in Messages": (
        "messages",
        {"reasoning": {"effort": "low"}},
        {},
        {"output_config": {"effort": "low"}},
    ),
    "a switch, in Messages": ("messages", {"thinking": False}, {}, {"thinking": {"type": "disabled"}}),
    "a switch that is on, in Messages": ("messages", {"thinking": True}, {}, {"thinking": {"type": "adaptive"}}),
    "a limit, in Messages, is always given": (
        "messages",
        {"max_output_tokens": 9},
        {"max_tokens": 5},
        {"max_tokens": 5},
    ),
    "an object that is given is the client's": ("chat", {"metadata": {"a": "b"}}, {"metadata": {}}, {"metadata": {}}),
}


@pytest.mark.parametrize(("dialect", "defaults", "body", "expected"), DEFAULTS.values(), ids=DEFAULTS)
def test_defaults_fill_in_what_a_client_leaves_out(dialect: str, defaults: Json, body: Json, expected: Json) -> None:
    given = dict(body)
    assert _ADDERS[dialect](body, defaults) == expected
    assert body == given


class Spelling(NamedTuple):
    """What says whether or how much the model thinks, and what is kept of it as a default."""

    given: Json
    is_on: bool
    has_amount: bool = False
    beside_amount: Json | None = None
    """What is kept for a client that says the same by an amount of its own; None for all."""
    turned: Json | None = None
    """What is kept for a client that says the opposite, if anything is."""

    def fit(self, client: "Spelling") -> Json:
        if client.is_on != self.is_on:
            return dict(self.turned or {})
        return dict(self.given if not client.has_amount or self.beside_amount is None else self.beside_amount)


SPELLINGS: dict[str, Spelling] = {
    "thinking": Spelling({"thinking": True}, True),
    "no thinking": Spelling({"thinking": False}, False),
    "thinking, as DeepSeek spells it": Spelling({"thinking": {"type": "adaptive", "keep": "all"}}, True),
    "no thinking, as DeepSeek spells it": Spelling({"thinking": {"type": "disabled"}}, False),
    "thinking with a budget": Spelling(
        {"thinking": {"type": "enabled", "budget_tokens": 5}}, True, True, {"thinking": {"type": "enabled"}}
    ),
    "an effort": Spelling({"reasoning_effort": "high"}, True, True, {}),
    "no effort": Spelling({"reasoning_effort": "none"}, False, True, {}),
    "an effort in an object": Spelling({"reasoning": {"effort": "high"}}, True, True, {}),
    "no effort in an object": Spelling({"reasoning": {"effort": "none"}}, False, True, {}),
    "a switch in an object": Spelling({"reasoning": {"enabled": True}}, True),
    "a switch in an object that is off": Spelling({"reasoning": {"enabled": False}}, False),
    "a switch beside an effort": Spelling(
        {"reasoning": {"enabled": True, "effort": "low"}}, True, True, {"reasoning": {"enabled": True}}
    ),
    "a budget": Spelling({"reasoning": {"max_tokens": 500}}, True, True, {}),
    "an effort for the template": Spelling({"chat_template_kwargs": {"reasoning_effort": "low"}}, True, True, {}),
    "no effort for the template": Spelling({"chat_template_kwargs": {"reasoning_effort": "none"}}, False, True, {}),
    **{
        f"{key} of the template is {value}": Spelling(
            {"chat_template_kwargs": {key: value}}, value, turned={"chat_template_kwargs": {key: not value}}
        )
        for key in ("enable_thinking", "thinking")
        for value in (True, False)
    },
}

APIS = {name: _ADDERS[name] for name in ("chat", "responses")}


@pytest.mark.parametrize("add_defaults", APIS.values(), ids=APIS)
@pytest.mark.parametrize("client", SPELLINGS.values(), ids=SPELLINGS)
def test_a_client_that_says_how_to_think_gets_the_defaults_that_agree(
    add_defaults: AddDefaults, client: Spelling
) -> None:
    given = client.given
    for default in SPELLINGS.values():
        kept = add_defaults({}, default.fit(client))  # by the API's own names
        own = {name: value for name, value in given.items() if name in kept}
        kept |= own | ({"reasoning": {**kept["reasoning"], **own["reasoning"]}} if "reasoning" in own else {})
        assert add_defaults({"model": "m", **given}, default.given) == {"model": "m", **given, **kept}, default


UNCLEAR: dict[str, Json] = {
    "a type that is neither on nor off": {"thinking": {"type": "auto"}},
    "a type of another type": {"thinking": {"type": ["enabled"]}},
    "a switch of another type": {"reasoning": {"enabled": "yes"}},
    "two switches": {"thinking": True, "reasoning": {"enabled": False}},
    "two switches of the template": {"chat_template_kwargs": {"enable_thinking": True, "thinking": False}},
    "an effort and a budget": {"reasoning_effort": "none", "reasoning": {"max_tokens": 5}},
}


@pytest.mark.parametrize("add_defaults", APIS.values(), ids=APIS)
@pytest.mark.parametrize("given", UNCLEAR.values(), ids=UNCLEAR)
def test_no_default_agrees_with_what_is_not_clear(add_defaults: AddDefaults, given: Json) -> None:
    for default in SPELLINGS.values():
        assert add_defaults(given, default.given) == given, default


@pytest.mark.parametrize("is_on", [True, False])
def test_a_switch_counts_more_than_an_effort(is_on: bool) -> None:
    given = {"thinking": is_on, "reasoning_effort": "none" if is_on else "high"}
    for default_is_on in (True, False):
        default = {"chat_template_kwargs": {"enable_thinking": default_is_on}, "reasoning": {"enabled": default_is_on}}
        kept = {"chat_template_kwargs": {"enable_thinking": is_on}}
        kept |= {"reasoning": {"enabled": is_on}} if default_is_on == is_on else {}
        assert add_chat_defaults(given, default) == given | kept


OTHER_APIS: dict[str, tuple[AddDefaults, Json, Spelling]] = {
    "enabled": (add_messages_defaults, {"thinking": {"type": "enabled", "budget_tokens": 9}}, Spelling({}, True, True)),
    "adaptive": (add_messages_defaults, {"thinking": {"type": "adaptive"}}, Spelling({}, True)),
    "disabled": (add_messages_defaults, {"thinking": {"type": "disabled"}}, Spelling({}, False)),
    "think": (add_ollama_defaults, {"think": True}, Spelling({}, True)),
    "no think": (add_ollama_defaults, {"think": False}, Spelling({}, False)),
    "a level of think": (add_ollama_defaults, {"think": "low"}, Spelling({}, True, True)),
    **{
        f"a level or budget of {value}": (
            add_gemini_defaults,
            {"generationConfig": {"thinkingConfig": {key: value}}},
            says,
        )
        for key, value, says in (
            ("thinkingLevel", "LOW", Spelling({}, True, True)),
            ("thinkingBudget", 5, Spelling({}, True, True)),
            ("thinkingBudget", -1, Spelling({}, True)),
            ("thinkingBudget", 0, Spelling({}, False, True)),
        )
    },
}


@pytest.mark.parametrize(("add_defaults", "given", "client"), OTHER_APIS.values(), ids=OTHER_APIS)
def test_other_apis_keep_the_arguments_of_the_template_that_agree(
    add_defaults: AddDefaults, given: Json, client: Spelling
) -> None:
    for default in SPELLINGS.values():
        if "chat_template_kwargs" in default.given:
            assert add_defaults(given, default.given) == given | default.fit(client), default


@pytest.mark.parametrize("add_defaults", [add_ollama_defaults, add_gemini_defaults], ids=["ollama", "gemini"])
def test_other_apis_take_what_the_client_says_to_the_template(add_defaults: AddDefaults) -> None:
    for client in SPELLINGS.values():
        if "chat_template_kwargs" in client.given:
            assert add_defaults(client.given, {"thinking": not client.is_on}) == client.given


def test_silent_clients_of_other_apis_get_all_arguments_of_the_template() -> None:
    default = {"chat_template_kwargs": {"enable_thinking": True, "reasoning_effort": "low"}}
    unspecified = {"generationConfig": {"thinkingConfig": {"thinkingLevel": "THINKING_LEVEL_UNSPECIFIED"}}}
    assert add_ollama_defaults({"think": None}, default) == {**default}
    assert add_gemini_defaults(unspecified, default) == {**unspecified, **default}


@pytest.mark.parametrize("add_defaults", APIS.values(), ids=APIS)
@pytest.mark.parametrize("default", [default.given for default in SPELLINGS.values()], ids=SPELLINGS)
def test_a_client_that_says_nothing_about_thinking_gets_the_defaults(add_defaults: AddDefaults, default: Json) -> None:
    """Null is nothing, and so is an object about something else."""
    silent: Json = {"thinking": None, "reasoning_effort": None, "reasoning": {"effort": None, "summary": "auto"}}
    filled = add_defaults({"chat_template_kwargs": None, **silent}, default)
    if add_defaults is add_responses_defaults:  # which has no object for it
        default = {**flatten_thinking(default)}
    efforts = {filled["reasoning"].get("effort"), filled.get("reasoning_effort")}
    assert filled["reasoning"]["summary"] == "auto"
    for name, value in default.items():
        if name == "reasoning_effort":
            assert efforts - {None} == {value}
        elif name == "reasoning" and "effort" in value:
            assert efforts - {None} == {value["effort"]}
        elif name == "reasoning":
            assert filled[name].items() >= value.items()
        else:
            assert filled[name] == value


@pytest.mark.parametrize("add_defaults", APIS.values(), ids=APIS)
def test_defaults_beside_those_about_thinking_are_added(add_defaults: AddDefaults) -> None:
    defaults = {
        "reasoning": {"effort": "low", "summary": "auto"},
        "chat_template_kwargs": {"enable_thinking": True, "a": 1},
        "temperature": 0.5,
    }
    filled = add_defaults({"thinking": False}, defaults)
    turned = {"enable_thinking": False, "a": 1}
    others: Json = {"reasoning": {"summary": "auto"}, "chat_template_kwargs": turned, "temperature": 0.5}
    assert filled == {"thinking": False, **others}
    filled = add_defaults({"reasoning": {"effort": "high"}}, defaults)
    assert filled == {**defaults, "reasoning": {"effort": "high", "summary": "auto"}}


def test_a_default_of_no_object_is_no_default_of_the_template() -> None:
    assert add_chat_defaults({"thinking": False}, {"chat_template_kwargs": "a"}) == {"thinking": False}


@pytest.mark.parametrize(
    ("each", "common"),
    [
        pytest.param([{"seed": 1, "top_p": 0.5}], {"seed": 1, "top_p": 0.5}, id="one upstream"),
        pytest.param([{"seed": 1, "top_p": 0.5}, {"seed": 1}], {"seed": 1}, id="what one lacks"),
        pytest.param([{"seed": 1}, {"seed": 2}], {}, id="different values"),
        pytest.param([{"reasoning_effort": "low"}] * 2, {"reasoning_effort": "low"}, id="the same thinking"),
        pytest.param(
            [{"reasoning_effort": "low", "seed": 1}, {"reasoning_effort": "low", "thinking": True, "seed": 1}],
            {"seed": 1},
            id="one says more about thinking",
        ),
        pytest.param([{"max_tokens": 5}, {"max_tokens": 5, "max_output_tokens": 9}], {}, id="another limit too"),
    ],
)
def test_the_defaults_that_upstreams_share(each: list[Json], common: Json) -> None:
    assert find_common_defaults(each) == common


@pytest.mark.parametrize(
    ("thinking", "flat"),
    [
        (True, {"thinking": True}),
        ({"type": "enabled"}, {"thinking": True}),
        ({"type": "adaptive"}, {"thinking": True}),
        ({"type": "disabled"}, {"thinking": False}),
        ({"type": "disabled", "budget_tokens": 5}, {"thinking": False}),
        ({"type": "enabled", "budget_tokens": 5}, {"thinking": True, "reasoning": {"max_tokens": 5}}),
        ({"type": "odd"}, {}),
        ({}, {}),
    ],
    ids=str,
)
def test_apis_without_an_object_for_thinking_get_a_boolean(thinking: object, flat: Json) -> None:
    assert flatten_thinking({"thinking": thinking}) == flat
    assert add_responses_defaults({}, {"thinking": thinking}) == flat
    given = flatten_thinking({"thinking": {"type": "enabled", "budget_tokens": 5}, "reasoning": {"max_tokens": 9}})
    assert given == {"thinking": True, "reasoning": {"max_tokens": 9}}


@pytest.mark.parametrize("kind", ["enabled", "disabled"])
def test_each_api_reads_the_object_as_it_reads_the_boolean(kind: str) -> None:
    for add_defaults in (add_responses_defaults, add_gemini_defaults, add_messages_defaults, add_ollama_defaults):
        assert add_defaults({}, {"thinking": {"type": kind}}) == add_defaults({}, {"thinking": kind == "enabled"})
