"""Tools that gpt-oss knows from its training: the prompt is what its own library makes of them."""

from dataclasses import replace
from typing import Any, Final

import pytest
from openai_harmony import (
    Author,
    Conversation,
    DeveloperContent,
    Message,
    ReasoningEffort,
    RenderConversationConfig,
    Role,
    SystemContent,
    ToolDescription,
)

from providers.harmony.completion_request import build_completion_request
from providers.harmony.token_decoder import HarmonyTokenDecoder
from providers.harmony.trained_tools import build_namespaces, is_trained
from tests.unit.support.harmony import lower_to_harmony, marked, prompt_of, real
from tests.unit.support.translator_drivers import collect, counting_ids
from translation.representation.json_types import Item, Json
from translation.representation.profile import DEFAULT_PROFILE
from translation.representation.turn import Turn

TRAINED: Final = {"web_search": "browser.search", "open_page": "browser.open", "find_in_page": "browser.find"}
QUESTION: Final[Item] = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Rain?"}]}
CALL: Final[Item] = {"type": "function_call", "call_id": "c", "name": "web_search", "arguments": '{"query":"rain"}'}
OUTPUT: Final[Item] = {"type": "function_call_output", "call_id": "c", "output": "[1] rain"}
THOUGHT: Final[Item] = {
    "type": "reasoning",
    "summary": [],
    "content": [{"type": "reasoning_text", "text": "I look it up."}],
}


def function(name: str) -> Json:
    return {
        "type": "function",
        "name": name,
        "description": "Ours.",
        "parameters": {"type": "object", "properties": {}},
    }


def turn(*items: Item, tools: Any = (), **more: Any) -> Turn:
    return Turn(model="m", items=[QUESTION, *items], tools=tools, trained_names=TRAINED, **more)


def message(role: Role, text: str, **more: Any) -> Message:
    built = Message.from_role_and_content(role, text)
    return built.model_copy(update=more)


def test_the_tokens_are_those_of_the_library() -> None:
    asked = turn(THOUGHT, CALL, OUTPUT, tools=[*map(function, TRAINED), function("weather")], instructions="Be brief.")
    prompt = lower_to_harmony(asked).body["prompt"]
    date = prompt_of(asked).split("Current date: ")[1][:10]
    system = (
        SystemContent.new()
        .with_reasoning_effort(ReasoningEffort.MEDIUM)
        .with_conversation_start_date(date)
        .with_browser_tool()
    )
    weather = ToolDescription.new("weather", "Ours.", {"type": "object", "properties": {}})
    developer = DeveloperContent.new().with_instructions("Be brief.").with_function_tools([weather])
    search = {"channel": "analysis", "recipient": "browser.search", "content_type": "code"}
    result = Message.from_author_and_content(Author.new(Role.TOOL, "browser.search"), "[1] rain")
    conversation = Conversation.from_messages(
        [
            Message.from_role_and_content(Role.SYSTEM, system),
            Message.from_role_and_content(Role.DEVELOPER, developer),
            message(Role.USER, "Rain?"),
            message(Role.ASSISTANT, "I look it up.", channel="analysis"),
            message(Role.ASSISTANT, '{"query":"rain"}', **search),
            result.with_recipient("assistant").with_channel("analysis"),
        ]
    )
    expected = real().library.render_conversation_for_completion(
        conversation, Role.ASSISTANT, RenderConversationConfig(auto_drop_analysis=False)
    )
    assert prompt == expected


@pytest.mark.parametrize("offered", [("web_search",), ("open_page", "find_in_page"), tuple(TRAINED), ()])
def test_the_namespace_has_the_tools_that_are_offered(offered: tuple[str, ...]) -> None:
    text = prompt_of(turn(tools=[*map(function, offered)]))
    assert ("namespace browser" in text) == bool(offered)
    for name, trained_name in TRAINED.items():
        assert (f"type {trained_name.removeprefix('browser.')} = " in text) == (name in offered)
    assert "namespace functions" not in text
    assert "functions'" not in text


def test_tools_that_are_not_to_be_called_are_not_described() -> None:
    assert "namespace browser" not in prompt_of(turn(tools=[function("web_search")], tool_choice="none"))


def test_a_past_call_keeps_its_form_without_its_tool() -> None:
    text = prompt_of(turn(CALL, OUTPUT))
    assert (
        '<|start|>assistant to=browser.search<|channel|>analysis code<|message|>{"query":"rain"}<|call|>'
        "<|start|>browser.search to=assistant<|channel|>analysis<|message|>[1] rain<|end|>" in text
    )


@pytest.mark.parametrize(
    ("name", "is_known"),
    [("browser.search", True), ("python.run", False), ("browser", False), ("", False), ("browser.", False)],
)
def test_only_known_namespaces_are_rendered(name: str, is_known: bool) -> None:
    assert is_trained(name) is is_known
    text = prompt_of(replace(turn(CALL, OUTPUT, tools=[function("web_search")]), trained_names={"web_search": name}))
    assert ("namespace functions" in text) is not is_known
    assert ("to=functions.web_search" in text) is not is_known
    assert build_namespaces(["browser.unknown"]) == []


def decode(text: str, **more: Any) -> list[Json]:
    decoder = HarmonyTokenDecoder(real(), counting_ids(), DEFAULT_PROFILE, **more)
    return collect([*(event for token in marked(text) for event in decoder.feed(token)), *decoder.finish("completed")])


@pytest.mark.parametrize("trained_name", [*TRAINED.values(), "functions.web_search", "browser.read"])
def test_calls_are_those_of_the_functions(trained_name: str) -> None:
    (item,) = decode(f"<|channel|>analysis to={trained_name} code<|message|>{{}}<|call|>", trained_names=TRAINED)
    names = {trained: name for name, trained in TRAINED.items()}
    assert item["name"] == names.get(trained_name, trained_name.removeprefix("functions."))
    assert item["type"] == "function_call"


def test_arguments_on_the_channel_of_thoughts_are_no_thoughts() -> None:
    text = (
        "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>analysis to=browser.open code<|message|>{}"
    )
    decoder = HarmonyTokenDecoder(real(), counting_ids(), DEFAULT_PROFILE, trained_names=TRAINED)
    for token in marked(text):
        decoder.feed(token)
    assert decoder.reasoning_tokens == len(real().encode("Hm"))
    assert decoder.has_called


def test_the_grammar_has_their_headers_and_no_loss() -> None:
    schema = {"type": "object", "properties": {"id": {"type": ["number", "string"], "default": -1}}}
    asked = turn(tools=[{**function("open_page"), "parameters": schema}, function("weather")])
    request = build_completion_request(asked, DEFAULT_PROFILE, real())
    rules = dict(line.split(" ::= ", 1) for line in request.body["grammar"].splitlines())
    channel, constrain = f"<[{real().control_tokens.channel}]>", f"<[{real().control_tokens.constrain}]>"
    to = '" to=browser.open"'
    header = f'({to} {channel} ("analysis" | "commentary") | {channel} ("analysis" | "commentary") {to})'
    assert rules["call-0"].startswith(f'{header} (" code" | (" "? {constrain}? "json")?) ')
    assert rules["call-1"].startswith(f'(" to=functions.weather" {channel} "commentary" | ')
    assert request.losses == ()
