"""Reasoning data that an upstream needs back travels sealed in the client's items, and reaches that upstream only."""

import itertools
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError, InternalServerError

from tests.conformance.reasoning_upstreams import (
    QUESTION,
    SEALED_REASONING,
    SECRETS,
    THOUGHT,
    TOOLS,
    UPSTREAMS,
    check_sealed,
    client_of,
    every_upstream,
    gateway_before,
    model_of,
    openly_thinking,
    resent,
    returned,
    sent,
)
from tests.databases import ready_sqlite
from tests.polling import read_until
from tests.serving import command, serving
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import responses_text
from tests.websocket_client import talking

FORMS = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
KINDS = pytest.mark.parametrize("kind", UPSTREAMS)
KEYED = [kind for kind, upstream in UPSTREAMS.items() if upstream.secret]
STATELESS: dict[str, Any] = {"store": False, "include": SEALED_REASONING, "tools": TOOLS}


async def respond(client: AsyncOpenAI, *, stream: bool = False, **params: Any) -> Any:
    """Returns the response. For a stream, its items must equal those of the response."""
    if not stream:
        return await client.responses.create(**params)
    ended: list[Any] = []
    final: Any = None
    async for event in await client.responses.create(stream=True, **params):
        if event.type == "response.output_item.done":
            ended.append(event.item)
        if event.type == "response.output_item.added" and event.item.type == "reasoning":
            assert "encrypted_content" not in event.item.model_dump(exclude_none=True)
        final = getattr(event, "response", final)
    assert ended == final.output
    return final


def continuing_input(first: Any) -> list[Any]:
    return [*QUESTION, *resent(first.output), *returned(first.output)]


@KINDS
@FORMS
async def test_an_unstored_tool_loop_carries_everything_its_upstream_needs(kind: str, stream: bool) -> None:
    async with every_upstream(kind) as upstreams:
        with gateway_before(upstreams) as gateway:
            async with client_of(gateway) as client:
                body: dict[str, Any] = {"model": model_of(kind), "stream": stream, **STATELESS}
                first = await respond(client, input=QUESTION, **body)
                check_sealed(first.output)
                assert any(item.type == "reasoning" and item.encrypted_content for item in first.output)
                second = await respond(client, input=continuing_input(first), **body)
        assert second.output_text == "Three."
        assert UPSTREAMS[kind].needed in sent(upstreams[kind])


@FORMS
@pytest.mark.parametrize("included", [True, False])
async def test_a_relay_seals_readable_reasoning_if_requested(included: bool, stream: bool) -> None:
    body = {**STATELESS, "model": "m", "stream": stream, "include": SEALED_REASONING if included else []}
    async with ScriptedUpstream() as upstream:
        upstream.on("/responses", openly_thinking(), responses_text("Three."))
        config = {
            "providers": {"p": {"type": "openai_compatible", "base_url": upstream.url, "dialects": ["responses"]}},
            "models": {"m": {"provider": "p"}},
        }
        with serving(config) as gateway:
            async with client_of(gateway) as client:
                first = await respond(client, input=QUESTION, **body)
                assert first.output[0].content[0].text == THOUGHT
                assert bool(first.output[0].encrypted_content) is included
                assert (await respond(client, input=continuing_input(first), **body)).output_text == "Three."
        assert (THOUGHT in sent(upstream)) is included


async def test_output_of_any_model_can_be_sent_to_every_other_model_without_its_secrets() -> None:
    async with every_upstream() as upstreams:
        with gateway_before(upstreams) as gateway:
            async with client_of(gateway) as client:
                firsts = {
                    kind: await respond(client, model=model_of(kind), input=QUESTION, **STATELESS) for kind in UPSTREAMS
                }
                for maker, first in firsts.items():
                    for other in UPSTREAMS:
                        answer = await respond(
                            client, model=model_of(other), input=continuing_input(first), **STATELESS
                        )
                        assert answer.output_text == "Three.", (maker, other)
                        sent_body = sent(upstreams[other])
                        own = [UPSTREAMS[maker].needed] if other == maker else []
                        assert [secret for secret in (*SECRETS, "rgr1.") if secret in sent_body] == [
                            secret for secret in own if secret in SECRETS
                        ], (maker, other)


async def test_another_model_reads_the_readable_part_or_the_reply_reports_the_loss() -> None:
    async with every_upstream("anthropic", "vllm", "openai") as upstreams:
        with gateway_before(upstreams) as gateway:
            async with client_of(gateway) as client:
                first = await respond(client, model=model_of("anthropic"), input=QUESTION, **STATELESS)
                raw = client.responses.with_raw_response
                read = await raw.create(model=model_of("vllm"), input=continuing_input(first), **STATELESS)
                lost = await raw.create(model=model_of("openai"), input=continuing_input(first), **STATELESS)
        assert THOUGHT in sent(upstreams["vllm"])
        assert "reasoning dropped" not in read.headers.get("x-gateway-loss", "")
        assert THOUGHT not in sent(upstreams["openai"])
        assert lost.headers["x-gateway-loss"] == "input[1]=reasoning dropped"


@FORMS
async def test_a_chain_that_changes_models_carries_no_secrets(stream: bool, tmp_path: Path) -> None:
    store = {"url": ready_sqlite(tmp_path / "store.db")}
    body: dict[str, Any] = {"tools": TOOLS, "stream": stream}
    async with every_upstream(*KEYED) as upstreams:
        with gateway_before(upstreams, store=store) as gateway:
            async with client_of(gateway) as client:
                for kind, other in itertools.permutations(KEYED, 2):
                    upstreams[kind].script(UPSTREAMS[kind].calling, UPSTREAMS[kind].answering)
                    upstreams[other].script(UPSTREAMS[other].answering)
                    first = await respond(client, model=model_of(kind), input=QUESTION, **body)
                    check_sealed(first.output)
                    assert (await client.responses.retrieve(first.id)).output == first.output
                    body["input"] = returned(first.output)
                    second = await respond(client, model=model_of(other), previous_response_id=first.id, **body)
                    assert UPSTREAMS[kind].needed not in sent(upstreams[other]), (kind, other)
                    body["input"] = "Thanks."
                    await respond(client, model=model_of(kind), previous_response_id=second.id, **body)
                    assert UPSTREAMS[kind].needed in sent(upstreams[kind]), (kind, other)
                    del body["input"]


@pytest.mark.parametrize("kind", KEYED)
async def test_items_of_background_responses_are_sealed_and_can_be_continued(kind: str, tmp_path: Path) -> None:
    store = {"url": ready_sqlite(tmp_path / "store.db")}
    async with every_upstream(kind) as upstreams:
        with gateway_before(upstreams, store=store) as gateway:
            async with client_of(gateway) as client:
                body: dict[str, Any] = {"model": model_of(kind), "tools": TOOLS, "background": True}
                response = await client.responses.create(input=QUESTION, **body)
                for following in ("returned", "ended"):
                    response = await read_until(
                        partial(client.responses.retrieve, response.id),
                        lambda read: read.status not in ("queued", "in_progress"),
                    )
                    if following == "returned":
                        check_sealed(response.output)
                        response = await client.responses.create(
                            input=returned(response.output), previous_response_id=response.id, **body
                        )
        assert response.output_text == "Three."
        assert UPSTREAMS[kind].needed in sent(upstreams[kind])


@pytest.mark.parametrize("kind", KEYED)
@pytest.mark.parametrize("resend", [True, False], ids=["sent again", "remembered"])
async def test_items_on_a_websocket_are_sealed_and_can_be_continued(kind: str, resend: bool) -> None:
    async with every_upstream(kind) as upstreams:
        with gateway_before(upstreams) as gateway:
            async with talking(gateway.v1) as talk:
                body: dict[str, Any] = {"model": model_of(kind), **STATELESS}
                events = await talk.turn(input=QUESTION, **body)
                first = events[-1]["response"]
                check_sealed(first["output"])
                assert [event["item"] for event in events if event["type"] == "response.output_item.done"] == first[
                    "output"
                ]
                if resend:
                    body["input"] = [*QUESTION, *resent(first["output"]), *returned(first["output"])]
                else:
                    body |= {"input": returned(first["output"]), "previous_response_id": first["id"]}
                await talk.response(**body)
        assert UPSTREAMS[kind].needed in sent(upstreams[kind])


async def test_modified_and_foreign_seals_are_refused_with_their_place() -> None:
    auth = {"keys": [{"name": "ann", "key": "key-of-ann"}, {"name": "bob", "key": "key-of-bob"}]}
    async with every_upstream("anthropic", "openai") as upstreams:
        with gateway_before(upstreams, auth=auth) as gateway:
            async with client_of(gateway, "key-of-ann") as ann, client_of(gateway, "key-of-bob") as bob:
                for kind in ("anthropic", "openai"):
                    body: dict[str, Any] = {"model": model_of(kind), **STATELESS}
                    history = continuing_input(await respond(ann, input=QUESTION, **body))
                    text = history[1]["encrypted_content"]
                    swapped = text[:40] + ("A" if text[40] != "A" else "B") + text[41:]
                    changed = [history[0], {**history[1], "encrypted_content": swapped}, *history[2:]]
                    for client, given in ((ann, changed), (bob, history)):
                        for verb in (client.responses.create, client.responses.input_tokens.count):
                            more = body if verb == client.responses.create else {"model": model_of(kind)}
                            with pytest.raises(BadRequestError) as refused:
                                await verb(input=given, **more)
                            assert refused.value.code == "invalid_encrypted_content"
                            assert refused.value.param == "input[1].encrypted_content"
                    assert (await respond(ann, input=history, **body)).output_text == "Three."


KEY, OTHER_KEY = "k" * 40, "o" * 40


@pytest.mark.parametrize(
    ("before", "after", "lasts"),
    [
        ({"sealing": {"keys": [KEY]}}, {"sealing": {"keys": [KEY]}}, True),
        ({"sealing": {"keys": [KEY]}}, {"sealing": {"keys": [OTHER_KEY, KEY]}}, True),
        ({"sealing": {"keys": [KEY]}}, {"sealing": {"keys": [OTHER_KEY]}}, False),
        ({"store": "here"}, {"store": "here"}, True),
        ({"store": "here"}, {"store": "here", "sealing": {"keys": [KEY]}}, True),
        ({}, {}, False),
    ],
    ids=["same key", "rotated", "key gone", "stored key", "stored key, then a configured one", "no key and no store"],
)
async def test_seals_outlive_the_server_if_their_key_does(
    before: dict[str, Any], after: dict[str, Any], lasts: bool, tmp_path: Path
) -> None:
    url = ready_sqlite(tmp_path / "store.db")

    def placed(sections: dict[str, Any]) -> dict[str, Any]:
        return {**sections, "store": {"url": url}} if "store" in sections else sections

    body: dict[str, Any] = {"model": model_of("anthropic"), **STATELESS}
    async with every_upstream("anthropic") as upstreams:
        with gateway_before(upstreams, **placed(before)) as gateway:
            async with client_of(gateway) as client:
                history = continuing_input(await respond(client, input=QUESTION, **body))
        with gateway_before(upstreams, **placed(after)) as gateway:
            async with client_of(gateway) as client:
                if lasts:
                    assert (await respond(client, input=history, **body)).output_text == "Three."
                    assert "signed-by-claude" in sent(upstreams["anthropic"])
                else:
                    with pytest.raises(BadRequestError, match="cannot be read"):
                        await respond(client, input=history, **body)


async def test_without_the_key_nothing_is_sealed_or_unsealed() -> None:
    away = {"url": "postgresql+asyncpg://nobody@127.0.0.1:9/none"}
    body: dict[str, Any] = {"model": model_of("anthropic"), **STATELESS}
    async with every_upstream("anthropic") as upstreams:
        with gateway_before(upstreams) as elsewhere:
            async with client_of(elsewhere) as client:
                history = continuing_input(await respond(client, input=QUESTION, **body))
        upstreams["anthropic"].script(UPSTREAMS["anthropic"].calling)
        with gateway_before(upstreams, store=away) as gateway:
            async with client_of(gateway) as client:
                first = await respond(client, input=QUESTION, **body)
                check_sealed(first.output)
                assert not [item for item in first.output if "encrypted_content" in item.model_dump(exclude_none=True)]
                with pytest.raises(InternalServerError) as refused:
                    await respond(client, input=history, **body)
    assert (refused.value.status_code, refused.value.code) == (503, "store_unavailable")


async def test_workers_without_a_store_share_a_key(tmp_path: Path) -> None:
    config = {
        "server": {"workers": 2},
        "store": {"url": None},
        "providers": {"demo": {"type": "scripted"}},
        "models": {"demo": {"provider": "demo"}},
    }
    body: dict[str, Any] = {"model": "demo", "store": False, "include": SEALED_REASONING}
    with command(config, tmp_path, forked=True) as gateway:
        for _ in range(12):
            # Each client has a connection of its own, which any of the workers may take.
            async with AsyncOpenAI(base_url=gateway.v1, api_key="none", max_retries=0) as client:
                first = await client.responses.create(input="Hello", reasoning={"effort": "low"}, **body)
            async with AsyncOpenAI(base_url=gateway.v1, api_key="none", max_retries=0) as client:
                assert first.output[0].type == "reasoning"
                assert first.output[0].encrypted_content
                await client.responses.create(input=[*QUESTION, *resent(first.output), *QUESTION], **body)


async def test_a_compaction_preserves_what_pending_calls_need() -> None:
    async with every_upstream("anthropic") as upstreams:
        with gateway_before(upstreams) as gateway:
            async with client_of(gateway) as client:
                body: dict[str, Any] = {"model": model_of("anthropic"), **STATELESS}
                first = await respond(client, input=QUESTION, **body)
                asking: list[Any] = [*QUESTION, *resent(first.output), {"type": "compaction_trigger"}]
                compacted = await respond(client, input=asking, **body)
                assert [item.type for item in compacted.output] == ["compaction"]
                item = compacted.output[0].model_dump(exclude_none=True)
                answer = await respond(client, input=[item, *returned(first.output)], **body)
        assert answer.output_text == "Three."
        assert "signed-by-claude" in sent(upstreams["anthropic"])


async def test_chat_receives_reasoning_details_unchanged() -> None:
    async with every_upstream("anthropic") as upstreams:
        with gateway_before(upstreams) as gateway:
            async with client_of(gateway) as client:
                whole = await client.chat.completions.create(
                    model=model_of("anthropic"), messages=[{"role": "user", "content": "Add."}]
                )
    details = whole.choices[0].message.model_dump()["reasoning_details"]
    assert [detail["signature"] for detail in details] == ["signed-by-claude"]
