"""Stored prompts over HTTP: their versions, and requests that refer to them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.databases import ready_sqlite
from tests.integration.mcp.tool_gateway import Hosting, hosting
from tests.upstream import chat_text
from tests.upstream.builders import json_reply
from tests.websocket_client import talking
from translation.representation.json_types import Json

CONTENT: Json = {
    "instructions": "Answer in {{language}}.",
    "messages": [{"role": "user", "content": "About {{city}}:"}],
}


@asynccontextmanager
async def prompting(tmp_path: Path, **config: Any) -> AsyncIterator[tuple[Hosting, httpx.AsyncClient]]:
    store = {"url": ready_sqlite(tmp_path / "state.db")}
    async with hosting(chat_text("Yes."), store=store, **config) as gateway:
        gateway.model.on("/chat/completions", *[chat_text("Yes.")] * 8)
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as http:
            yield gateway, http


async def test_a_request_with_a_prompt_is_the_prompt_with_its_variables(tmp_path: Path) -> None:
    async with prompting(tmp_path) as (gateway, http):
        prompt = (await http.post("/prompts", json=CONTENT)).json()
        assert prompt["variables"] == ["language", "city"]
        variables: Any = {"language": "French", "city": "Rome"}
        options: list[Any] = [{}, {"background": True}]
        for more in options:
            response = await gateway.client.responses.create(
                model="m", input="Where?", prompt={"id": prompt["id"], "variables": variables}, **more
            )
            while response.status in ("queued", "in_progress"):
                response = await gateway.client.responses.retrieve(response.id)
            assert response.status == "completed"
            sent = (await gateway.last_request())["messages"]
            assert [(each["role"], each["content"]) for each in sent] == [
                ("system", "Answer in French."),
                ("user", "About Rome:"),
                ("user", "Where?"),
            ]
        stream = await gateway.client.responses.create(
            model="m", prompt={"id": prompt["id"], "version": "1", "variables": variables}, stream=True
        )
        assert [event.type async for event in stream][-1] == "response.completed"


async def test_the_sdk_drives_every_route(tmp_path: Path) -> None:
    """It has no methods for prompts, so they are sent by its `post`, `get` and `delete`, which applications use too."""
    async with prompting(tmp_path) as (gateway, _):
        client = gateway.client
        create: Any = await client.post("/prompts", body=CONTENT, cast_to=dict)
        other: Any = await client.post("/prompts", body={"instructions": "Other."}, cast_to=dict)
        path = f"/prompts/{create['id']}"
        listed: Any = await client.get("/prompts", cast_to=dict)
        assert [each["id"] for each in listed["data"]] == [other["id"], create["id"]]
        assert await client.get(path, cast_to=dict) == create
        version: Any = await client.post(f"{path}/versions", body={**CONTENT, "instructions": "Sing."}, cast_to=dict)
        assert version["version"] == "2"
        versions: Any = await client.get(f"{path}/versions", cast_to=dict)
        assert [each["version"] for each in versions["data"]] == ["2", "1"]
        assert (versions["first_id"], versions["last_id"]) == ("2", "1")
        older: Any = await client.get(f"{path}/versions", options={"params": {"after": "2"}}, cast_to=dict)
        assert ([each["version"] for each in older["data"]], older["has_more"]) == (["1"], False)
        chosen: Any = await client.get(path, options={"params": {"version": "2"}}, cast_to=dict)
        assert chosen["instructions"] == "Sing."

        async def use() -> str:
            response = await client.responses.create(
                model="m", prompt={"id": create["id"], "variables": {"language": "French", "city": "Rome"}}
            )
            assert response.prompt is not None
            assert response.prompt.id == create["id"]
            instructions: str = (await gateway.last_request())["messages"][0]["content"]
            return instructions

        with pytest.raises(openai.BadRequestError) as unknown:
            changed: Any = await client.post(path, body={"default_version": 2}, cast_to=dict)
        assert unknown.value.param == "default_version"
        assert await use() == "Answer in French."
        changed = await client.post(path, body={"default_version": "2"}, cast_to=dict)
        assert changed["version"] == "2"
        with pytest.raises(openai.BadRequestError) as refused:
            await use()
        assert refused.value.code == "unknown_prompt_variable"
        assert (await client.delete(path, cast_to=dict))["deleted"]
        with pytest.raises(openai.NotFoundError):
            await client.get(path, cast_to=dict)


async def test_versions_change_nothing_until_one_becomes_the_default(tmp_path: Path) -> None:
    async with prompting(tmp_path) as (gateway, http):
        prompt = (await http.post("/prompts", json={"instructions": "One.", "model": "m"})).json()
        path = f"/prompts/{prompt['id']}"
        second = (await http.post(f"{path}/versions", json={"instructions": "Two."})).json()
        assert (second["version"], second["default_version"], second["is_default"]) == ("2", "1", False)
        reference: Any = {"id": prompt["id"]}
        await gateway.client.responses.create(input="Hi", prompt=reference)
        assert (await gateway.last_request())["messages"][0]["content"] == "One."
        assert (await http.post(path, json={"default_version": "2"})).json()["is_default"] is True
        await gateway.client.responses.create(model="m", input="Hi", prompt=reference)
        assert (await gateway.last_request())["messages"][0]["content"] == "Two."
        assert (await http.get(path, params={"version": "1"})).json()["instructions"] == "One."
        versions = (await http.get(f"{path}/versions")).json()
        assert [each["version"] for each in versions["data"]] == ["2", "1"]
        listed = (await http.get("/prompts")).json()
        assert [each["instructions"] for each in listed["data"]] == ["Two."]
        assert (await http.delete(path)).json() == {"id": prompt["id"], "object": "prompt.deleted", "deleted": True}
        assert (await http.get(path)).status_code == 404
        assert (await http.get(f"{path}/versions")).status_code == 404


async def test_what_does_not_fit_is_refused_by_name(tmp_path: Path) -> None:
    async with prompting(tmp_path, limits={"prompts": 1, "prompt_versions": 1}) as (gateway, http):
        prompt = (await http.post("/prompts", json=CONTENT)).json()
        path = f"/prompts/{prompt['id']}"
        wrong: list[Any] = [({"city": "Rome"}, "language"), ({"town": "x"}, "town")]
        for variables, param in wrong:
            with pytest.raises(openai.BadRequestError) as refused:
                await gateway.client.responses.create(
                    model="m", input="Hi", prompt={"id": prompt["id"], "variables": variables}
                )
            assert refused.value.param == f"prompt.variables.{param}"
        with pytest.raises(openai.NotFoundError) as unknown:
            await gateway.client.responses.create(model="m", input="Hi", prompt={"id": prompt["id"], "version": "9"})
        assert unknown.value.param == "prompt.version"
        with pytest.raises(openai.BadRequestError) as absent:
            await gateway.client.responses.create(model="m", input="Hi", prompt={"id": "pmpt_none"})
        assert absent.value.param == "prompt"
        assert "POST /v1/prompts" in str(absent.value)
        for reply, param in (
            (await http.post("/prompts", json={"name": "x"}), "instructions"),
            (await http.post(path, json={}), "default_version"),
            (await http.post(path, json={"version": "1"}), "version"),
            (await http.get(path, params={"version": "x"}), "version"),
        ):
            assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)
        for reply, key in (
            (await http.post("/prompts", json=CONTENT), "limits.prompts"),
            (await http.post(f"{path}/versions", json=CONTENT), "limits.prompt_versions"),
        ):
            assert reply.status_code == 429
            assert key in reply.text
        for missing, param in (
            (await http.get(path, params={"version": "9"}), "version"),
            (await http.post(path, json={"default_version": "9"}), "default_version"),
        ):
            assert (missing.status_code, missing.json()["error"]["param"]) == (404, param)
            assert "has no version '9'" in missing.text
        assert (await http.post("/prompts/pmpt_none/versions", json=CONTENT)).status_code == 404
        assert (await http.post("/prompts/pmpt_none", json={"default_version": "1"})).status_code == 404


async def test_without_a_store_there_are_no_prompts() -> None:
    async with hosting(chat_text("Yes.")) as gateway, httpx.AsyncClient(base_url=gateway.url, timeout=60) as http:
        assert (await http.get("/prompts")).status_code == 404
        with pytest.raises(openai.BadRequestError) as refused:
            await gateway.client.responses.create(model="m", input="Hi", prompt={"id": "pmpt_1"})
    assert refused.value.param == "prompt"


async def test_responses_echo_the_prompt_however_they_are_asked_for(tmp_path: Path) -> None:
    async with prompting(tmp_path) as (gateway, http):
        prompt = (await http.post("/prompts", json=CONTENT)).json()
        variables: Any = {"language": "French", "city": "Rome"}
        used: Any = {"id": prompt["id"], "variables": variables}
        echo = {"id": prompt["id"], "version": "1", "variables": variables}
        create = gateway.client.responses.create
        whole = await create(model="m", input="Hi", prompt=used)
        stored = await gateway.client.responses.retrieve(whole.id)
        stream: Any = await create(model="m", input="Hi", prompt=used, stream=True)
        events = [event async for event in stream]
        queued = await create(model="m", input="Hi", prompt=used, background=True)
        ended = queued
        while ended.status in ("queued", "in_progress"):
            ended = await gateway.client.responses.retrieve(ended.id)
        async with talking(gateway.url, additional_headers={}) as socket:
            spoken = await socket.response(model="m", input="Hi", prompt=used)
        plain = await create(model="m", input="Hi")
    shown = [whole, stored, events[0].response, events[-1].response, queued, ended]
    assert [each.prompt and each.prompt.model_dump() for each in shown] == [echo] * len(shown)
    assert spoken["prompt"] == echo
    assert [each["content"] for each in gateway.model.requests[-2].json["messages"]][:2] == [
        "Answer in French.",
        "About Rome:",
    ]
    assert plain.prompt is None


async def test_a_version_that_was_chosen_is_echoed_and_defaults_are_not(tmp_path: Path) -> None:
    async with prompting(tmp_path) as (gateway, http):
        prompt = (await http.post("/prompts", json={**CONTENT, "defaults": {"language": "Latin"}})).json()
        await http.post(f"/prompts/{prompt['id']}/versions", json={"instructions": "Two."})
        response = await gateway.client.responses.create(
            model="m", input="Hi", prompt={"id": prompt["id"], "version": "2"}
        )
        first = await gateway.client.responses.create(
            model="m", input="Hi", prompt={"id": prompt["id"], "variables": {"city": "Rome"}}
        )
    assert response.prompt is not None
    assert response.prompt.model_dump() == {"id": prompt["id"], "version": "2", "variables": None}
    assert first.prompt is not None
    assert first.prompt.model_dump() == {"id": prompt["id"], "version": "1", "variables": {"city": "Rome"}}


async def test_counts_of_tokens_and_compactions_know_the_prompt(tmp_path: Path) -> None:
    models = {"m": {"provider": "up", "capabilities": {"counting": "chat"}}}
    async with prompting(tmp_path, models=models) as (gateway, http):
        gateway.model.on("/chat/completions/input_tokens", json_reply({"input_tokens": 42}))
        prompt = (await http.post("/prompts", json=CONTENT)).json()
        used = {"id": prompt["id"], "variables": {"language": "French", "city": "Rome"}}
        counted = await http.post("/responses/input_tokens", json={"model": "m", "input": "Hi", "prompt": used})
        assert counted.json()["input_tokens"] == 42
        asked = await gateway.last_request()
        assert [each["content"] for each in asked["messages"]] == ["Answer in French.", "About Rome:", "Hi"]
        compacted = await http.post("/responses/compact", json={"model": "m", "input": "Hi", "prompt": used})
        assert compacted.status_code == 200, compacted.text
        assert "About Rome:" in str(await gateway.last_request())
        assert compacted.json()["output"][0]["content"] != []
        for path in ("/responses/input_tokens", "/responses/compact"):
            unknown = await http.post(path, json={"model": "m", "input": "Hi", "prompt": {"id": "pmpt_none"}})
            assert (unknown.status_code, unknown.json()["error"]["param"]) == (400, "prompt")
            missing = await http.post(path, json={"model": "m", "input": "Hi", "prompt": {"id": prompt["id"]}})
            assert missing.json()["error"]["param"] == "prompt.variables.language"
