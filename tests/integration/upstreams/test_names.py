"""The model names that clients may use on every type of upstream: names, aliases and patterns."""

from typing import Any, get_args

import pytest
from openai import AsyncOpenAI, NotFoundError

from providers.base import RelayedDialect, WireDialect
from providers.config import EMBEDDED_TYPES, PROVIDER_DEFAULTS, ProviderType
from tests.contract.conftest import KINDS
from tests.serving import serving
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import json_reply
from tests.upstream.faults import ANSWERS, TEXT, sound
from tests.upstream.ollama import ollama_tags

LISTED = ("big", "small-1", "small-2", "other")
MODELS: dict[str, Any] = {"best": {"model": "big"}, "big": {}, "gone": {}, "small-*": {}, "?ther": {"model": "small-1"}}
"""Model names of the gateway: an alias, listed and unlisted names, patterns of both kinds."""

ASKED = {"best": "big", "big": "big", "gone": "gone", "small-2": "small-2", "small-3": "small-3", "other": "small-1"}
"""Requested name -> upstream name. Only a name that matches a pattern is checked against the list."""

HI: Any = [{"role": "user", "content": "Hi"}]

REMOTE = {name: kind for name, kind in KINDS.items() if kind[0] not in EMBEDDED_TYPES}


@pytest.mark.parametrize("kind", REMOTE.values(), ids=list(REMOTE))
async def test_names_aliases_and_patterns_are_those_of_the_upstream(kind: tuple[ProviderType, WireDialect]) -> None:
    forwards = PROVIDER_DEFAULTS[kind[0]].unlisted_models == "forward"
    async with ScriptedUpstream() as upstream:
        rows = {"data": [{"id": name} for name in LISTED], "models": [{"name": f"models/{name}"} for name in LISTED]}
        upstream.script(sound(ANSWERS[kind[1]]))
        upstream.on("/models", json_reply(rows))
        upstream.on("/api/tags", ollama_tags(*LISTED))
        dialects = {"dialects": [kind[1]]} if kind[1] in get_args(RelayedDialect) else {}
        config = {
            "providers": {"up": {"type": kind[0], "base_url": upstream.url, "api_key": "k", **dialects}},
            "models": {name: {"provider": "up", **said} for name, said in MODELS.items()},
        }
        with serving(config) as gateway:
            async with AsyncOpenAI(base_url=gateway.v1, api_key="none", max_retries=0) as client:
                names = [model.id async for model in client.models.list()]
                served = {name: model for name, model in ASKED.items() if name != "small-3" or forwards}
                answers = [await client.responses.create(model=name, input="Hi") for name in served]
                if forwards:
                    assert (await client.models.retrieve("small-3")).owned_by == "up"
                else:
                    with pytest.raises(NotFoundError, match=r"did you mean small-1 or small-2\?"):
                        await client.models.retrieve("small-3")
                    with pytest.raises(NotFoundError, match=r"did you mean small-1 or small-2\?") as unlisted:
                        await client.chat.completions.create(
                            model="small-3", messages=[{"role": "user", "content": "Hi"}]
                        )
                    assert (unlisted.value.code, unlisted.value.param) == ("model_not_found", "model")
                    with pytest.raises(NotFoundError, match=r"did you mean small-1 or small-2\?"):
                        await client.responses.input_tokens.count(model="small-3", input="Hi")
                with pytest.raises(NotFoundError, match="does not exist") as unknown:
                    await client.responses.create(model="large", input="Hi")
        input_items = [request for request in upstream.requests if request.method == "POST"]
    assert names == ["best", "big", "gone", "small-1", "small-2", "other"]
    assert [request.model for request in input_items] == list(served.values())
    assert [answer.output_text for answer in answers] == ["".join(TEXT)] * len(served)
    assert answers[0].model == "best", "what an alias stands for is nobody's business"
    assert unknown.value.code == "model_not_found"


def test_every_http_provider_type_is_covered() -> None:
    assert {kind for kind, _ in REMOTE.values()} == set(get_args(ProviderType)) - EMBEDDED_TYPES


async def test_a_provider_without_an_upstream_has_names_too() -> None:
    models = {"best": {"provider": "in", "model": "demo"}, "s*": {"provider": "in"}}
    with serving({"providers": {"in": {"type": "scripted"}}, "models": models}) as gateway:
        async with AsyncOpenAI(base_url=gateway.v1, api_key="none", max_retries=0) as client:
            assert [model.id async for model in client.models.list()] == ["best", "scripted"]
            for name in ("best", "scripted"):
                assert (await client.responses.create(model=name, input="Say hello.")).model == name
