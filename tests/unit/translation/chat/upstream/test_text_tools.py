"""Tools as text, for upstreams whose API has no tools."""

import json
from typing import Any

import pytest

from tests.unit.support.tool_texts import summarize_items
from translation.chat.upstream.call_formats import CALL_FORMATS
from translation.chat.upstream.lower import lower
from translation.chat.upstream.text_tools import lower_tools_to_text
from translation.errors import Unrepresentable
from translation.parsers.tools import PARSER_FACTORIES
from translation.representation.json_types import Json
from translation.representation.profile import DEFAULT_PROFILE, Profile
from translation.representation.turn import Turn

PARAMETERS: Json = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER: Json = {
    "type": "function",
    "function": {"name": "weather", "description": "Tells the weather.", "parameters": PARAMETERS, "strict": True},
}
TIME: Json = {"type": "function", "function": {"name": "time"}}
ASKED: Json = {"role": "user", "content": "What is the weather?"}

SECTION = """# Tools

You may call one or more functions to help with the user query.

Function signatures are given within <tools></tools> XML tags:
<tools>
{"type":"function","function":{"name":"weather","description":"Tells the weather.","parameters":{"type":"object",\
"properties":{"city":{"type":"string"}}}}}
{"type":"function","function":{"name":"time","parameters":{"type":"object","properties":{}}}}
</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call>
Write all calls of one answer in one block; several calls are a JSON array of such objects."""


def body(*messages: Json, **more: Any) -> Json:
    return {"model": "m", "messages": list(messages) or [ASKED], "tools": [WEATHER, TIME], **more}


def prompt(**more: Any) -> str:
    """The system message."""
    said = lower_tools_to_text(body(**more), single_block=False)["messages"][0]
    assert said["role"] == "system"
    return str(said["content"])


def calls(*made: Json, content: str | None = None) -> Json:
    said = {} if content is None else {"content": content}
    return {"role": "assistant", **said, "tool_calls": list(made)}


def call(name: str, arguments: str, id: str = "c1") -> Json:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def output(content: Any, id: str = "c1") -> Json:
    return {"role": "tool", "tool_call_id": id, "content": content}


def test_tools_are_described_in_a_system_message_of_their_own() -> None:
    said = lower_tools_to_text(body(tool_choice="auto", parallel_tool_calls=True, temperature=0), single_block=False)
    assert said == {"model": "m", "temperature": 0, "messages": [{"role": "system", "content": SECTION}, ASKED]}


@pytest.mark.parametrize("role", ["system", "developer"])
def test_tools_are_described_at_the_end_of_the_system_message(role: str) -> None:
    said = lower_tools_to_text(body({"role": role, "content": "Be brief."}, ASKED), single_block=False)
    assert said["messages"] == [{"role": role, "content": f"Be brief.\n\n{SECTION}"}, ASKED]


def test_a_body_is_not_changed() -> None:
    given = body({"role": "system", "content": "Be brief."}, calls(call("time", "{}")), output("noon"))
    before = json.dumps(given)
    lower_tools_to_text(given, single_block=True)
    assert json.dumps(given) == before


def test_without_tools_nothing_is_added() -> None:
    given = {"model": "m", "messages": [ASKED]}
    assert lower_tools_to_text(given, single_block=True) == given


def test_tools_that_may_not_be_called_are_not_described() -> None:
    assert lower_tools_to_text(body(tool_choice="none"), single_block=True) == {"model": "m", "messages": [ASKED]}


def test_a_choice_is_an_instruction() -> None:
    named = {"type": "function", "function": {"name": "time"}}
    assert prompt(tool_choice="required") == f"{SECTION} You must call a function now."
    assert prompt(tool_choice=named) == f'{SECTION} You must call the function "time" now.'


def test_one_call_at_a_time_is_an_instruction() -> None:
    told_once = prompt(parallel_tool_calls=False)
    assert told_once.endswith("</tool_call>\nMake one call at most in one answer.")


@pytest.mark.parametrize(
    ("given", "stops"),
    [
        ({}, None),
        ({"stop": "X"}, "X"),
        ({"parallel_tool_calls": False}, ["</tool_call>"]),
        ({"parallel_tool_calls": False, "stop": "X"}, ["X", "</tool_call>"]),
        ({"parallel_tool_calls": False, "stop": ["X", "Y"]}, ["X", "Y", "</tool_call>"]),
        ({"parallel_tool_calls": False, "stop": ["1", "2", "3", "4"]}, ["1", "2", "3", "4"]),
    ],
)
def test_an_answer_that_may_call_once_ends_with_its_first_block(given: Json, stops: Any) -> None:
    assert lower_tools_to_text(body(**given), single_block=False).get("stop") == stops


def test_a_single_block_is_where_the_answer_ends() -> None:
    assert lower_tools_to_text(body(), single_block=True)["stop"] == ["</tool_call>"]
    assert "stop" not in lower_tools_to_text(body(), single_block=True, parser="json")


def test_calls_and_their_outputs_in_the_history_are_text() -> None:
    history = [
        ASKED,
        calls(call("weather", '{"city":"Rome"}'), call("time", "{}", "c2"), content="Let me see."),
        output("sunny"),
        output("noon", "c2"),
        {"role": "assistant", "content": "Sunny, at noon."},
        ASKED,
        calls(call("time", "oops")),
        output("never"),
    ]
    said = lower_tools_to_text(body(*history, tool_choice="none"), single_block=False)["messages"]
    assert said == [
        ASKED,
        {
            "role": "assistant",
            "content": "Let me see.\n<tool_call>\n"
            '[{"name":"weather","arguments":{"city":"Rome"}},{"name":"time","arguments":{}}]\n</tool_call>',
        },
        {
            "role": "user",
            "content": "<tool_response>\nsunny\n</tool_response>\n<tool_response>\nnoon\n</tool_response>",
        },
        {"role": "assistant", "content": "Sunny, at noon."},
        ASKED,
        {"role": "assistant", "content": '<tool_call>\n{"name":"time","arguments":"oops"}\n</tool_call>'},
        {"role": "user", "content": "<tool_response>\nnever\n</tool_response>"},
    ]


def test_a_freeform_call_in_the_history_is_a_call_with_its_input() -> None:
    freeform = {"id": "c1", "type": "custom", "custom": {"name": "run", "input": "ls"}}
    said = lower_tools_to_text(body(calls(freeform), tool_choice="none"), single_block=False)["messages"]
    assert summarize_items("hermes", said[0]["content"]) == [("run", {"input": "ls"})]


def test_media_of_an_output_stay_media() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}
    said = lower_tools_to_text(body(calls(call("time", "{}")), output([image])), single_block=False)["messages"]
    assert said[-1]["content"] == [
        {"type": "text", "text": "<tool_response>\n"},
        image,
        {"type": "text", "text": "\n</tool_response>\n"},
    ]


def test_a_tool_that_is_no_function_is_refused() -> None:
    custom = {"type": "custom", "custom": {"name": "run"}}
    with pytest.raises(Unrepresentable) as refused:
        lower_tools_to_text(body(tools=[WEATHER, custom]), single_block=False)
    assert refused.value.param == "tools[1]"


@pytest.mark.parametrize("parser", PARSER_FACTORIES)
def test_calls_in_the_history_are_written_as_their_parser_reads_them(parser: str) -> None:
    made = [call("weather", '{"city": "Rome", "days": [1, null, true]}'), call("time", "{}", "c2")]
    said = lower_tools_to_text(body(calls(*made), tool_choice="none"), single_block=False, parser=parser)["messages"]
    assert summarize_items(parser, said[0]["content"]) == [
        ("weather", {"city": "Rome", "days": [1, None, True]}),
        ("time", {}),
    ]


@pytest.mark.parametrize("parser", PARSER_FACTORIES)
def test_every_parser_has_its_format_described(parser: str) -> None:
    said = lower_tools_to_text(body(), single_block=False, parser=parser)["messages"][0]["content"]
    assert CALL_FORMATS[parser].instructions in said
    assert CALL_FORMATS[parser].several_calls_note in said


def test_arguments_that_are_no_object_are_written_all_the_same() -> None:
    said = lower_tools_to_text(
        body(calls(call("time", "oops")), tool_choice="none"), single_block=False, parser="pythonic"
    )
    assert said["messages"][0]["content"] == "[time(arguments='oops')]"


def turn(**more: Any) -> Turn:
    message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi."}]}
    return Turn(model="m", items=[message], tools=[{"type": "function", "name": "time"}], **more)


def test_a_model_without_tools_gets_them_as_text() -> None:
    said, losses = lower(turn(tool_choice="required"), Profile(text_tool_calls="hermes", single_tool_block=True))
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & said.keys()
    assert said["messages"][0]["content"].endswith("You must call a function now.")
    assert said["stop"] == ["</tool_call>"]
    assert list(map(str, losses)) == ["tool_choice=not enforced"]


@pytest.mark.parametrize("choice", [None, "auto", "none"])
def test_a_choice_without_a_required_call_loses_nothing_as_text(choice: str | None) -> None:
    assert list(lower(turn(tool_choice=choice), Profile(text_tool_calls="hermes")).losses) == []


def test_a_model_with_tools_gets_them_by_its_api() -> None:
    said, _ = lower(turn(), DEFAULT_PROFILE)
    assert [tool["function"]["name"] for tool in said["tools"]] == ["time"]
    assert said["messages"] == [{"role": "user", "content": "Hi."}]
