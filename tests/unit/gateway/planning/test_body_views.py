"""What a request stores, what its reply echoes, and what its upstream gets."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.planning.body_views import StorageOptions, build_echoed_body, build_upstream_body, parse_storage_options
from gateway.planning.continuation import Continuation
from gateway.planning.resolver import Route
from providers.base import Capabilities
from translation.errors import InvalidRequest
from translation.representation.profile import Profile

Json = dict[str, Any]
BODY: Json = {"model": "m", "input": "a"}
STORED = StorageOptions(stored=True)


def route(**capabilities: Any) -> Route:
    provider: Any = None
    return Route(
        name="m",
        provider=provider,
        capabilities=Capabilities(**capabilities),
        upstream_model="m",
        profile=Profile(),
        strict=False,
    )


@pytest.mark.parametrize(
    ("more", "resumable", "kept"),
    [
        ({}, False, STORED),
        ({"store": None}, False, STORED),
        ({"store": False}, True, StorageOptions()),
        ({}, True, STORED),
        ({"stream": True}, True, replace(STORED, logged=True)),
        ({"stream": True, "resumable": False}, True, STORED),
        ({"stream": True, "resumable": True}, False, replace(STORED, logged=True)),
        ({"background": True}, False, replace(STORED, background=True)),
        ({"background": True, "stream": True}, False, StorageOptions(stored=True, background=True, logged=True)),
    ],
)
def test_what_a_response_stores_follows_its_parameters(more: Json, resumable: bool, kept: StorageOptions) -> None:
    assert parse_storage_options("responses", {**BODY, **more}, resumable=resumable) == kept


@pytest.mark.parametrize(("store", "stored"), [(None, False), (False, False), (True, True)])
def test_completions_are_stored_if_requested(store: bool | None, stored: bool) -> None:
    assert parse_storage_options("chat", {"store": store}, resumable=True) == StorageOptions(stored=stored)


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"store": False, "background": True}, "background"),
        ({"store": False, "resumable": True, "stream": True}, "resumable"),
        ({"resumable": True}, "resumable"),
    ],
)
def test_contradictory_state_parameters_are_refused_by_name(more: Json, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_storage_options("responses", {**BODY, **more}, resumable=False)
    assert refused.value.param == param


def test_a_reply_reports_what_is_really_stored() -> None:
    body = {**BODY, "conversation": "conv_1", "background": None, "store": None}
    view = build_echoed_body("responses", body, STORED, Profile())
    assert (view["store"], view["background"], view["conversation"]) == (True, False, {"id": "conv_1"})
    assert build_echoed_body("responses", {**BODY, "store": True}, StorageOptions(), Profile())["store"] is False


def test_parameters_about_stored_state_are_not_sent_upstream() -> None:
    body = {**BODY, "previous_response_id": "r", "conversation": None, "background": False, "resumable": True}
    history: Json = {"type": "message", "role": "user", "content": []}
    own: Json = {"type": "message", "role": "user", "content": []}
    state = Continuation(history=[history], new_items=[own])
    assert build_upstream_body("responses", body, route(), STORED, state) == {
        "model": "m",
        "store": False,
        "input": [history, own],
    }


def test_an_input_without_history_is_sent_unchanged() -> None:
    state = Continuation(history=(), new_items=[{"type": "message"}])
    assert build_upstream_body("responses", BODY, route(), STORED, state)["input"] == "a"


def test_encrypted_reasoning_is_requested_if_it_is_stored_and_available() -> None:
    sealing = route(sealed_reasoning=True)
    wanted = ["reasoning.encrypted_content"]
    assert build_upstream_body("responses", BODY, sealing, STORED, None)["include"] == wanted
    assert build_upstream_body("responses", {**BODY, "include": wanted}, sealing, STORED, None)["include"] == wanted
    assert "include" not in build_upstream_body("responses", BODY, sealing, StorageOptions(), None)
    assert "include" not in build_upstream_body("responses", BODY, route(), STORED, None)


@pytest.mark.parametrize("streaming", [True, False])
def test_background_responses_are_streamed_from_upstream_if_possible(streaming: bool) -> None:
    kept = StorageOptions(stored=True, background=True)
    assert build_upstream_body("responses", BODY, route(streaming=streaming), kept, None)["stream"] is streaming


def test_metadata_of_a_stored_completion_stays_here() -> None:
    body: Json = {"model": "m", "messages": [], "store": True, "metadata": {"a": "b"}}
    assert build_upstream_body("chat", body, route(), STORED, None) == {"model": "m", "messages": []}
    assert build_upstream_body("chat", body, route(), StorageOptions(), None) == body


@pytest.mark.parametrize(
    ("more", "echoed"),
    [({}, False), ({"parallel_tool_calls": None}, False), ({"parallel_tool_calls": True}, True)],
)
def test_the_configured_parallel_tool_calls_are_read_back(more: Json, echoed: bool) -> None:
    view = build_echoed_body("responses", {**BODY, **more}, STORED, Profile(parallel_tool_calls=False))
    assert view["parallel_tool_calls"] is echoed


def test_unset_parallel_tool_calls_are_left_to_their_default() -> None:
    assert "parallel_tool_calls" not in build_echoed_body("responses", BODY, STORED, Profile())
