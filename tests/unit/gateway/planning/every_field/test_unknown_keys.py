"""No key that an API does not have vanishes from a request silently, in whichever object it is, for any upstream."""

import copy
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest

from providers.base import Dialect
from tests.unit.gateway.planning.every_field.test_every_field import ALL, CASES
from tests.unit.gateway.planning.every_field.upstream_requests import lower_for_upstream
from translation.errors import InvalidRequest, Unrepresentable
from translation.representation.loss import Loss

Json = dict[str, Any]

KEY: Final = "unheard_of"
VALUE: Final = "UNHEARD-OF VALUE"

FREE: Final = {
    "chat": {"parameters", "schema", "metadata", "logit_bias", "voice", "reasoning_details"},
    "responses": {"parameters", "schema", "metadata", "logit_bias", "variables", "headers", "client_metadata", "image"},
    "messages": {"input_schema", "schema", "input"},
    "ollama": {"parameters", "arguments", "format"},
    "gemini": {
        *("args", "response", "parametersJsonSchema", "responseJsonSchema", "responseSchema", "parameters", "labels"),
        *("safetySettings", "properties", "functionCall", "functionResponse"),
    },
}
"""Members whose objects are the client's own data, or have a grammar of their own."""

HINTS: Final = {
    "messages": {"cache_control", "context_management", "citations", "user_location", "details", "tool_changes"},
    "responses": {
        *("context_management", "conversation", "prompt", "moderation", "stream_options", "prompt_cache_options"),
        *("access_programs", "annotations"),
    },
    "chat": {"stream_options"},
}
"""Members that the gateway serves itself or reports or refuses whole."""

WHOLE_TYPES: Final = re.compile(
    r"(mcp|file_search|web_search|computer|code_interpreter|image_generation|tool_search|program|compaction|"
    r"configuration_update|item_reference|additional_tools).*"
)
"""Items and tools of the Responses API that are sent, left out or refused whole."""


def list_objects(value: Any, dialect: Dialect, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yields the paths of the objects in a body that the API describes."""
    if isinstance(value, list):
        for index, inner in enumerate(value):
            yield from list_objects(inner, dialect, (*path, index))
    if not isinstance(value, dict):
        return
    if dialect == "responses" and WHOLE_TYPES.fullmatch(str(value.get("type"))):
        return
    if path:
        yield path
    for key, inner in value.items():
        if key not in FREE[dialect] and key not in HINTS.get(dialect, ()):
            yield from list_objects(inner, dialect, (*path, key))


def list_members() -> Iterator[tuple[Dialect, str, Json]]:
    """Yields (dialect, place, body): one body for each kind of object, with a key in it that the API does not have."""
    for dialect, cases in CASES.items():
        seen: set[tuple[Any, ...]] = set()
        for case in cases.values():
            for path in list_objects(case.asked, dialect):
                body = copy.deepcopy(case.asked)
                holder: Any = body
                for step in path:
                    holder = holder[step]
                names = tuple(step for step in path if isinstance(step, str))
                kind = (names, holder.get("type"), holder.get("role"), tuple(sorted(holder)))
                if kind not in seen:
                    seen.add(kind)
                    holder[KEY] = VALUE
                    yield dialect, ".".join(names), body


MEMBERS: Final[dict[Dialect, list[tuple[str, Json]]]] = {dialect: [] for dialect in CASES}
for _dialect, _place, _body in list_members():
    MEMBERS[_dialect].append((_place, _body))


def is_within(place: str, loss: Loss) -> bool:
    """Whether a loss is about a whole member that the place is in."""
    lost = re.sub(r"\[\d+\]", "", loss.param)
    return f"{place}.".startswith(f"{lost}.") and loss.effect.endswith(("dropped", "left out"))


@pytest.mark.parametrize(("dialect", "upstream"), ALL)
def test_an_unknown_key_is_sent_refused_or_reported(dialect: Dialect, upstream: str) -> None:
    silent = []
    for place, body in MEMBERS[dialect]:
        try:
            request = lower_for_upstream(upstream, dialect, copy.deepcopy(body))
        except InvalidRequest:
            continue
        is_sent, is_reported = VALUE in request.text, any(KEY in loss.param for loss in request.losses)
        if not is_sent and any(is_within(place, loss) for loss in request.losses):
            continue  # the whole object is lost
        if not is_sent and not is_reported:
            silent.append(place)
        assert not (is_sent and is_reported), f"{place} is sent, and reported as lost"
        if is_reported:
            with pytest.raises(Unrepresentable):
                lower_for_upstream(upstream, dialect, copy.deepcopy(body), strict=True)
    assert silent == []


@pytest.mark.parametrize("dialect", MEMBERS)
def test_the_objects_of_every_api_are_examined(dialect: Dialect) -> None:
    assert len(MEMBERS[dialect]) > 15
