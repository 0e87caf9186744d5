"""Decides which turns the demo model was trained for. It answers any other with nonsense."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import orjson

from translation.hosted.past_hosted_calls import OUTPUTS_WITHOUT_RESULT
from translation.representation.json_types import Item, Json, mapping_or_empty
from translation.representation.turn import Turn

COUNTRIES: Final = (
    *("France", "Italy", "Spain", "Germany", "Japan", "Egypt", "Norway", "Peru", "Kenya", "Greece", "Cuba", "Austria"),
)
CITIES: Final = (
    *("Paris", "Rome", "Madrid", "Berlin", "Tokyo", "Cairo", "Oslo", "Lima", "Nairobi", "Athens", "Havana", "Vienna"),
    *("London", "Boston", "Chicago", "Sydney", "Toronto", "Mumbai", "Seoul", "Dublin"),
)
NAMES: Final = ("Ada", "Bob", "Carol", "Dave", "Erin", "Frank", "Grace", "Heidi", "Ivan", "Judy")
_WORDS: Final = (
    "apple river stone cloud table green paper silver tiger garden window bridge candle forest market ocean pencil "
    "rocket school summer thunder village winter yellow button castle dragon engine flower guitar hammer island jacket "
    "kitten ladder mirror needle orange pepper quartz ribbon saddle temple velvet wagon zebra anchor basket copper "
    "desert ember falcon goblet harbor iron jungle kernel lemon magnet nickel olive parrot rabbit salad tulip umbra "
    "violin walnut yogurt red blue small large fast slow open closed order item price total user file name list status "
    "ready done error value key note plan"
)
WORDS: Final = tuple(_WORDS.split())
TOOL_NAMES: Final = (
    *("search", "lookup_order", "read_file", "send_email", "get_time", "get_stock_price"),
    *("translate", "list_files", "run_query", "get_user", "create_note", "find_document"),
)

_MAX_SYSTEM_CHARS: Final = 300
_MAX_TOOLS_CHARS: Final = 1000
_MAX_OUTPUT_CHARS: Final = 200
"""Beyond these lengths the model fails. They were measured with instructions and tools that it was not trained on."""


def _match_any(words: Sequence[str]) -> str:
    return f"(?:{'|'.join(words)})"


_CITY: Final = _match_any(CITIES)
_VALUE: Final = (
    rf"(?:{_match_any(WORDS)}(?: {_match_any(WORDS)}){{0,6}}|[A-Z]{{0,2}}[1-9]\d{{0,3}}|{_CITY}|{_match_any(NAMES)})"
)

_NAMING_PATTERN: Final = rf"(?:My name is|I am) ({_match_any(NAMES)})\.?"
_NAMING: Final = re.compile(_NAMING_PATTERN)

_PROMPTS: Final = (
    r"(?:What is |Calculate )?\d ?\+ ?\d[.?]?",
    r"What is \d (?:\*|times) \d\?",
    rf"(?:What is the c|C)apital of {_match_any(COUNTRIES)}\?",
    r"(?:[Hh]i|[Hh]ello|Hey|Hi there|Hello there|Say hello)[!.]?",
    r"Count (?:from 1 )?to (?:[2-9]|[12]\d|30)[.!]?",
    rf"Think in (?:[2-9]|1\d|20) steps about {_match_any(WORDS)}\.?",
    r"(?:Tell me|Write) a story[.!]?",
    r"(?:Never stop|Talk forever|Think forever|Never stop thinking)\.?",
    r"(?:Write|Show me) hello world in Python\.?",
    r"Show me (?:unicode|an emoji)\.?",
    r"(?:Give me|Return) JSON for \d ?\+ ?\d\.?",
    _NAMING_PATTERN,
    rf"Repeat: {_VALUE}",
    rf"(?:What is the weather|What's the weather|What is the weather like|Weather) in {_CITY}(?: and {_CITY})?\?",
    r"What is \d{1,2} [+*] \d{1,2}\?",
    r"Use (?:add|multiply) for \d{1,2} and \d{1,2}\.?",
    rf"(?:Call|Use) {_match_any(TOOL_NAMES)} with {_VALUE}\.?",
)
_KNOWN_PROMPT: Final = re.compile("|".join(_PROMPTS))
_OWN_NAME_PROMPT: Final = "What is my name?"


def select_trained_turn(turn: Turn) -> Turn | None:
    """Returns the part of a turn that the demo model was trained for; None if it was not trained for the turn.

    The part is the instructions, the last user message, and the calls and outputs after it. Of earlier turns it is the
    one in which the user gives a name, if the user asks for it. No other answer depends on earlier turns, and the model
    fails if it gets several.
    """
    last_user_index = max((index for index, item in enumerate(turn.items) if item.get("role") == "user"), default=-1)
    prompt = join_item_text(turn.items[last_user_index]).strip() if last_user_index >= 0 else ""
    earlier: Sequence[Item] = ()
    if prompt == _OWN_NAME_PROMPT:
        earlier = _select_naming(turn.items[:last_user_index])
    if not (_KNOWN_PROMPT.fullmatch(prompt) or earlier):
        return None
    system = [item for item in turn.items[:last_user_index] if item.get("role") in ("system", "developer")]
    rest = turn.items[last_user_index:]
    is_short = (
        len(turn.instructions or "") + sum(len(join_item_text(item)) for item in system) <= _MAX_SYSTEM_CHARS
        and (not turn.tools or len(orjson.dumps(list(turn.tools))) <= _MAX_TOOLS_CHARS)
        and all(len(join_item_text(item)) <= _MAX_OUTPUT_CHARS for item in rest)
    )
    if not is_short or any(_has_media(item) for item in (*system, *rest)):
        return None
    return replace(turn, items=[*system, *earlier, *rest])


def find_missing_result(turn: Turn) -> str | None:
    """Returns what a turn says of a call without a result, such as one that the user did not approve; None if all calls
    after the last user message have results. The model was not trained for such outputs."""
    for item in reversed(turn.items):
        if item.get("role") == "user":
            return None
        text = join_item_text(item)
        if item["type"] == "function_call_output" and text.startswith(OUTPUTS_WITHOUT_RESULT):
            return text
    return None


def is_held_to_form(turn: Turn) -> bool:
    """Whether the answer must have a form that no fixed sentence has: a schema, a grammar, a call."""
    choice = turn.tool_choice
    is_free_choice = choice in (None, "auto", "none") or mapping_or_empty(choice).get("mode") == "auto"
    text_format = mapping_or_empty(turn.text_format).get("type", "text")
    return not is_free_choice or text_format != "text" or bool(turn.extra.keys() & {"json_schema", "grammar"})


def join_item_text(item: Item) -> str:
    """Returns the text of a message, of a call, or of the output of a call."""
    if item["type"] == "function_call":
        return f"{item['name']} {item.get('arguments', '')}"
    return " ".join(list_item_texts(item))


def list_item_texts(item: Item) -> list[str]:
    """Returns the text of each part of a message or of the output of a call, empty for media."""
    return [str(part.get("text") or "") for part in _list_parts(item)]


def _list_parts(item: Item) -> Iterator[Json]:
    for value in (item.get("content"), item.get("output")):
        if isinstance(value, str):
            yield {"type": "text", "text": value}
        elif isinstance(value, list):
            yield from (part for part in value if isinstance(part, dict))


def _has_media(item: Item) -> bool:
    return any("text" not in part and "refusal" not in part for part in _list_parts(item))


def _select_naming(items: Sequence[Item]) -> Sequence[Item]:
    """Returns the last message in which the user gives a name, with the answer that the model was trained to see after
    it; nothing if there is none."""
    for item in reversed(items):
        if item.get("role") == "user" and (naming := _NAMING.fullmatch(join_item_text(item).strip())):
            answer = {"type": "output_text", "text": f"Nice to meet you, {naming[1]}."}
            return [item, {"type": "message", "role": "assistant", "content": [answer]}]
    return ()
