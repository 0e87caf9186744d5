"""What a chat request asks for, besides its turn."""

from typing import Any

import pytest

from translation.chat.client.facts import read_facts
from translation.request_facts import RequestFacts, StateFacts, ToolFacts

Json = dict[str, Any]
FUNCTION: Json = {"type": "function", "function": {"name": "f"}}

SEARCH: Json = {"type": "file_search", "vector_store_ids": ["vs_1"]}

FACTS: dict[str, tuple[Json, RequestFacts]] = {
    "nothing": ({}, RequestFacts()),
    "nothing, as null": (dict.fromkeys(("stream", "store", "tools", "functions", "n", "thinking")), RequestFacts()),
    "a stream": ({"stream": True}, RequestFacts(streams=True)),
    "several choices": ({"n": 3}, RequestFacts(choices=3)),
    "storage": ({"store": True}, RequestFacts(state=StateFacts(is_stored=True))),
    "tools of the client": ({"tools": [FUNCTION]}, RequestFacts(tools=ToolFacts(kinds=frozenset({"function"})))),
    "a call in the legacy form": ({"functions": [{}]}, RequestFacts(tools=ToolFacts(is_single_call=True))),
    "tools of the gateway beside them": (
        {"tools": [FUNCTION, SEARCH], "web_search_options": {}},
        RequestFacts(
            tools=ToolFacts(hosted=({"type": "web_search"}, SEARCH), kinds=frozenset({"function", "file_search"}))
        ),
    ),
    "thinking, which a relay writes itself": ({"thinking": True}, RequestFacts()),
    "extensions": ({"extensions": True}, RequestFacts(has_extensions=True, needs_translation=True)),
    "padding": ({"stream_options": {"include_obfuscation": True}}, RequestFacts(is_obfuscated=True)),
}


@pytest.mark.parametrize(("params", "facts"), FACTS.values(), ids=FACTS)
def test_each_parameter_is_one_fact(params: Json, facts: RequestFacts) -> None:
    assert read_facts({"model": "m", "messages": [], **params}) == facts
