"""What a request stores, and what its upstream gets of it."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.dialects.chat.endpoint import CHAT
from gateway.dialects.responses.endpoint import RESPONSES
from gateway.http.auth import ANONYMOUS
from gateway.http.large_bodies import LargeBodyPool
from gateway.planning.admitted_request import AdmittedRequest
from gateway.planning.continuation import EmptyHistory
from gateway.planning.continued_history import HistorySource
from gateway.replies.endpoints import CompletionForm, Endpoint, ReplyIdentity, ResponseForm
from gateway.service.run import Run
from gateway.service.run_factory import RunFactory
from gateway.service.storage import (
    ContinuedRequest,
    ResponseStorage,
    StorageOptions,
    choose_storage_options,
)
from providers.capabilities import CAPABILITIES
from tests.unit.support.routing import Recorder, resolver, settings
from translation.errors import InvalidRequest

Json = dict[str, Any]
BODY: Json = {"model": "m", "input": "a"}
STORED = StorageOptions(stored=True)
MODELS: Json = {"m": {"provider": "up"}}


def options(more: Json, *, resumable: bool, endpoint: Endpoint = RESPONSES) -> StorageOptions:
    return choose_storage_options(endpoint.request.read_facts({**BODY, **more}), resumable=resumable)


@pytest.mark.parametrize(
    ("more", "resumable", "kept"),
    [
        ({}, False, STORED),
        ({"store": None}, False, STORED),
        ({"store": False}, True, StorageOptions()),
        ({}, True, STORED),
        ({"stream": True}, True, STORED._replace(logged=True)),
        ({"stream": True, "resumable": False}, True, STORED),
        ({"stream": True, "resumable": True}, False, STORED._replace(logged=True)),
        ({"background": True}, False, STORED._replace(background=True)),
        ({"background": True, "stream": True}, False, StorageOptions(stored=True, background=True, logged=True)),
    ],
)
def test_what_a_response_stores_follows_its_parameters(more: Json, resumable: bool, kept: StorageOptions) -> None:
    assert options(more, resumable=resumable) == kept


@pytest.mark.parametrize(("store", "stored"), [(None, False), (False, False), (True, True)])
def test_completions_are_stored_if_requested(store: bool | None, stored: bool) -> None:
    assert options({"store": store}, resumable=True, endpoint=CHAT) == StorageOptions(stored=stored)


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
        options(more, resumable=False)
    assert refused.value.param == param


class Keeper:
    """Keeps the input of the plan."""

    planned: AdmittedRequest

    def keep(self, run: Run, request: ContinuedRequest) -> None:
        self.planned = request.planned


async def sent(more: Json, kept: StorageOptions, **capabilities: bool) -> AdmittedRequest:
    """Returns what is planned for a response that is kept like this."""
    provider = Recorder("up", replace(CAPABILITIES["openai_compatible"], **capabilities))  # type: ignore[arg-type]
    body, route, keeper = {**BODY, **more}, resolver(MODELS, provider).resolve("m"), Keeper()
    assert isinstance(RESPONSES.storage, ResponseForm)
    storage = ResponseStorage(
        RunFactory(settings(MODELS, "up")),
        LargeBodyPool(),
        RESPONSES.storage,
        kept,
        keeper,
        HistorySource(EmptyHistory(), None, None),
    )
    facts, identity = RESPONSES.request.read_facts(body), ReplyIdentity("resp_1", 0, "m")
    await storage.accept(AdmittedRequest(RESPONSES, body, facts, route, route.target, ANONYMOUS, identity), 0)
    return keeper.planned


async def test_encrypted_reasoning_is_requested_if_it_is_stored_and_available() -> None:
    wanted = ["reasoning.encrypted_content"]
    for more in ({}, {"include": wanted}):
        planned = await sent(more, STORED, sealed_reasoning=True)
        assert planned.body["include"] == wanted
        assert planned.facts.wants_sealed_reasoning
    assert "include" not in (await sent({}, StorageOptions(), sealed_reasoning=True)).body
    assert "include" not in (await sent({}, STORED, sealed_reasoning=False)).body


@pytest.mark.parametrize("streaming", [True, False])
async def test_background_responses_are_streamed_from_upstream_if_possible(streaming: bool) -> None:
    planned = await sent({}, StorageOptions(stored=True, background=True), streaming=streaming)
    assert planned.body["stream"] is streaming
    assert planned.facts.streams is streaming


def test_metadata_of_a_stored_completion_stays_here() -> None:
    body: Json = {"model": "m", "messages": [], "store": True, "metadata": {"a": "b"}}
    assert isinstance(CHAT.storage, CompletionForm)
    assert CHAT.storage.remove_storage(body) == {"model": "m", "messages": []}
