"""providers/scripted/provider.py: what the demo model replies, and how it is streamed."""

from typing import Any

import pytest

from providers.base import Capabilities
from providers.config import ProviderConfig
from providers.profiles import PROFILES
from providers.scripted.provider import ScriptedProvider
from tests.unit.support.event_grammar import EventGrammar
from translation.errors import Unrepresentable
from translation.representation.events import Delta, Event, Finished, ItemEnded, ItemStarted, Started, Usage
from translation.representation.json_types import Item, Json
from translation.representation.turn import Turn

PROVIDER = ScriptedProvider("demo", ProviderConfig(type="scripted"))


def user(*texts: str) -> Item:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text} for text in texts]}


def tool(name: str, **properties: Any) -> Json:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "name": name, "parameters": parameters}


WEATHER = tool("get_weather", city={"type": "string"}, days={"type": "integer", "minimum": 1})
CLOCK = tool("get_time")
CALL = {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "18 degrees"}


async def reply(*items: Item, **params: Any) -> list[Event]:
    """The events of one turn; they obey the grammar."""
    turn = Turn(model="demo", items=items, **params)
    grammar = EventGrammar()
    events: list[Event] = []
    async for batch in PROVIDER.prepare(turn, PROFILES["scripted"]).batches():
        grammar.check(batch)
        events += batch
    grammar.finish()
    return events


def item_texts(events: list[Event]) -> list[tuple[str, str]]:
    """Returns (item type or name of the call, text) of each item."""
    items = {event.index: event.item for event in events if isinstance(event, ItemStarted)}
    texts = dict.fromkeys(items, "")
    for event in events:
        if isinstance(event, Delta):
            texts[event.index] += event.text
    return [(str(items[index].get("name", items[index]["type"])), text) for index, text in texts.items()]


REPLIES: dict[str, tuple[list[Item], dict[str, Any], list[tuple[str, str]]]] = {
    "the user is repeated": ([user("Hello", "there")], {}, [("message", "You said: Hello there")]),
    "white space is kept": ([user("a  b\n\n c ")], {}, [("message", "You said: a  b\n\n c ")]),
    "the last user message counts": ([user("a"), user("b")], {}, [("message", "You said: b")]),
    "nobody spoke": ([], {"instructions": "Be kind."}, [("message", "You said nothing.")]),
    "media are named": (
        [{"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": "x"}]}],
        {},
        [("message", "You said: [image]")],
    ),
    "effort asks for reasoning": (
        [user("Hello there")],
        {"reasoning": {"effort": "low"}},
        [("reasoning", "The user wrote 2 words. I will repeat it."), ("message", "You said: Hello there")],
    ),
    "thinking asks for reasoning": (
        [user("Hi")],
        {"thinking": True},
        [("reasoning", "The user wrote 1 word. I will repeat it."), ("message", "You said: Hi")],
    ),
    "a text is repeated up to a limit": (
        [user("a " * 50_001)],
        {"thinking": True},
        [
            ("reasoning", "The user wrote more than 50000 words. I will repeat it."),
            ("message", f"You said: {'a ' * 50_000} [...]"),
        ],
    ),
    "effort none asks for none": ([user("Hi")], {"reasoning": {"effort": "none"}}, [("message", "You said: Hi")]),
    "thinking false forbids it": (
        [user("Hi")],
        {"reasoning": {"effort": "high"}, "thinking": False},
        [("message", "You said: Hi")],
    ),
    "a reasoning budget holds": (
        [user("Hi")],
        {"reasoning": {"max_tokens": 2}},
        [("reasoning", "The user"), ("message", "You said: Hi")],
    ),
    "no tool is called that nobody named": (
        [user("Hi")],
        {"tools": [WEATHER, CLOCK], "thinking": True},
        [("reasoning", "The user wrote 1 word. I will repeat it."), ("message", "You said: Hi")],
    ),
    "a name inside another word is not the tool's": (
        [user("Use get_times")],
        {"tools": [CLOCK]},
        [("message", "You said: Use get_times")],
    ),
    "the tool that the user names is called": ([user("Get_time?")], {"tools": [WEATHER, CLOCK]}, [("get_time", "{}")]),
    "the first tool that the user names is called": (
        [user("Use get_time and get_weather")],
        {"tools": [WEATHER, CLOCK]},
        [("get_weather", '{"city":"string","days":1}')],
    ),
    "a tool without parameters is called with none": (
        [user("Ping!")],
        {"tools": [{"type": "function", "name": "ping", "parameters": None}]},
        [("ping", "{}")],
    ),
    "a tool that cannot be filled in is passed over": (
        [user("odd, get_time")],
        {"tools": [tool("odd", a={"not": {}}), {"type": "web_search"}, CLOCK]},
        [("get_time", "{}")],
    ),
    "no other tool is tried after one with too large arguments": (
        [user("huge odd get_time")],
        {"tools": [tool("odd", a=False), tool("huge", a={"minItems": 9999}), CLOCK]},
        [("message", "You said: huge odd get_time")],
    ),
    "no tool can be filled in": ([user("odd")], {"tools": [tool("odd", a=False)]}, [("message", "You said: odd")]),
    "tool_choice none": (
        [user("get_time")],
        {"tools": [CLOCK], "tool_choice": "none"},
        [("message", "You said: get_time")],
    ),
    "tool_choice names a tool": (
        [user("Hi")],
        {"tools": [WEATHER, CLOCK], "tool_choice": {"type": "function", "name": "get_time"}},
        [("get_time", "{}")],
    ),
    "tool_choice allows some tools": (
        [user("Use get_weather or get_time")],
        {
            "tools": [WEATHER, CLOCK],
            "tool_choice": {
                "type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "get_time"}]
            },
        },
        [("get_time", "{}")],
    ),
    "the tool's result is told": (
        [user("Hi"), CALL, RESULT],
        {"tools": [WEATHER]},
        [("message", "get_weather returned: 18 degrees")],
    ),
    "all results are told": (
        [user("Hi"), CALL, RESULT, {**RESULT, "call_id": "?", "output": [{"type": "input_text", "text": "x"}]}],
        {"tools": [WEATHER]},
        [("message", "get_weather returned: 18 degrees\nThe tool returned: x")],
    ),
    "the plan is to tell the result": (
        [user("Hi"), CALL, RESULT],
        {"thinking": True},
        [
            ("reasoning", "The user wrote 1 word. I will report what the tool returned."),
            ("message", "get_weather returned: 18 degrees"),
        ],
    ),
    "a new question after a result gets a new call": (
        [user("Hi"), CALL, RESULT, user("And get_time?")],
        {"tools": [CLOCK], "thinking": True},
        [("reasoning", "The user wrote 2 words. I will call get_time."), ("get_time", "{}")],
    ),
    "required calls even after a result": (
        [user("Hi"), CALL, RESULT],
        {"tools": [CLOCK], "tool_choice": "required"},
        [("get_time", "{}")],
    ),
    "a schema is filled in": (
        [user("Hi")],
        {"text_format": {"type": "json_schema", "name": "a", "schema": WEATHER["parameters"]}, "thinking": True},
        [
            ("reasoning", "The user wrote 1 word. I will fill in the format that was asked for."),
            ("message", '{"city":"string","days":1}'),
        ],
    ),
    "any JSON object": ([user("Hi")], {"text_format": {"type": "json_object"}}, [("message", "{}")]),
    "a stop sequence ends the text": (
        [user("one two three")],
        {"sampling": {"stop": ["", "three", "two"]}},
        [("message", "You said: one ")],
    ),
}  # fmt: skip


@pytest.mark.anyio
@pytest.mark.parametrize(("items", "params", "expected"), REPLIES.values(), ids=REPLIES)
async def test_the_reply_follows_from_the_turn(
    items: list[Item], params: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    events = await reply(*items, **params)
    assert item_texts(events) == expected
    assert isinstance(events[0], Started)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("params", "reason"),
    [({}, "stop"), ({"tools": [CLOCK], "tool_choice": "required"}, "tool_calls"), ({"max_output_tokens": 1}, "length")],
    ids=["a text", "a call", "a text that was cut"],
)
async def test_the_finish_reason_says_how_the_reply_ended(params: dict[str, Any], reason: str) -> None:
    ended = (await reply(user("Hi"), **params))[-1]
    assert isinstance(ended, Finished)
    assert ended.reason == reason


@pytest.mark.anyio
@pytest.mark.parametrize("limit", range(1, 15))
async def test_no_reply_is_longer_than_its_limit(limit: int) -> None:
    whole = item_texts(await reply(user("get_weather"), tools=[WEATHER], thinking=True))
    events = await reply(user("get_weather"), tools=[WEATHER], thinking=True, max_output_tokens=limit)
    ended = events[-1]
    assert isinstance(ended, Finished)
    assert ended.usage is not None
    assert ended.usage.output == min(limit, 12)
    for (name, text), (whole_name, whole_text) in zip(item_texts(events), whole, strict=False):
        assert name == whole_name
        assert whole_text.startswith(text)
    if ended.reason == "length":
        last = [event for event in events if isinstance(event, ItemEnded)][-1]
        assert last.status == "incomplete"
    else:
        assert item_texts(events) == whole


@pytest.mark.anyio
async def test_usage_counts_words() -> None:
    ended = (await reply(user("one two"), instructions="Be kind.", thinking=True))[-1]
    assert isinstance(ended, Finished)
    assert ended.usage == Usage(input=4, output=13, cache_read=0, cache_write=0, reasoning=9)


@pytest.mark.anyio
async def test_every_word_of_the_text_has_logprobs_and_nothing_else_has() -> None:
    events = await reply(user("é"), thinking=True, sampling={"logprobs": True, "top_logprobs": 3})
    by_item = [event.logprobs for event in events if isinstance(event, Delta)]
    assert by_item[0] is None
    token = {"token": " é", "logprob": 0.0, "bytes": [32, 195, 169]}
    assert by_item[-1] == [{**token, "top_logprobs": [token]}]


@pytest.mark.anyio
async def test_a_long_reply_has_many_batches() -> None:
    turn = Turn(model="demo", items=[user("word " * 40)])
    sizes = [len(batch) async for batch in PROVIDER.prepare(turn, PROFILES["scripted"]).batches()]
    assert len(sizes) > 10


UNFILLABLE: dict[str, tuple[dict[str, Any], str]] = {
    "a schema nothing is known to fit": (
        {"text_format": {"type": "json_schema", "name": "a", "schema": {"not": {}}}},
        "text.format.schema",
    ),
    "a schema with numbers beyond JSON's": (
        {"text_format": {"type": "json_schema", "name": "a", "schema": {"type": "integer", "minimum": 2**70}}},
        "text.format.schema",
    ),
    "a forced call that cannot be filled in": (
        {"tools": [tool("odd", a=False)], "tool_choice": "required"},
        "tools",
    ),
    "a forced call of a tool there is not": (
        {"tools": [CLOCK], "tool_choice": {"type": "function", "name": "nope"}},
        "tools",
    ),
}


@pytest.mark.parametrize(("params", "param"), UNFILLABLE.values(), ids=UNFILLABLE)
def test_unanswerable_requests_are_refused_before_anything_is_sent(params: dict[str, Any], param: str) -> None:
    with pytest.raises(Unrepresentable) as refused:
        PROVIDER.prepare(Turn(model="demo", items=[user("Hi")], **params), PROFILES["scripted"])
    assert refused.value.param == param


def test_capabilities_switched_off_in_the_configuration_are_refused() -> None:
    config = ProviderConfig.model_validate({"type": "scripted", "capabilities": {"images": False}})
    provider = ScriptedProvider("mine", config)
    assert (provider.name, provider.capabilities.images, provider.capabilities.tools) == ("mine", False, True)


def test_unknown_parameters_are_reported_as_losses() -> None:
    exchange = PROVIDER.prepare(Turn(model="demo", items=[user("hi")], extra={"temprature": 1}), PROFILES["scripted"])
    assert list(map(str, exchange.losses)) == ["temprature=dropped"]


def test_the_scripted_model_relays_nothing() -> None:
    assert PROVIDER.capabilities.dialects == Capabilities().dialects == frozenset()
    with pytest.raises(ValueError, match="has no client API"):
        PROVIDER.prepare_relay("chat", {})


@pytest.mark.anyio
async def test_the_scripted_provider_serves_one_model() -> None:
    assert await PROVIDER.list_models() == ["scripted"]
    await PROVIDER.aclose()
