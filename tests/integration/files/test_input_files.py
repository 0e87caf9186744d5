"""Files that requests name by their ids: what the upstream reads, on every API, and what is stored and refused."""

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.databases import ready_sqlite
from tests.serving import serving
from tests.upstream import ScriptedUpstream, chat_text, responses_text
from tests.upstream.anthropic import anthropic_text
from tests.upstream.builders import json_reply

Json = dict[str, Any]
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
PDF = b"%PDF-1.7 \xff\xfe"
KEYS = {"ann": "key-of-ann-0123456789", "bob": "key-of-bob-0123456789"}
UNKNOWN = "file-0000000000000000"
COMPATIBLE: Json = {"type": "openai_compatible"}
PROVIDERS: dict[str, Json] = {"messages": {"type": "anthropic", "api_key": "key-of-the-gateway"}}
"""API of an upstream -> its provider, where it is not that of servers with OpenAI's APIs."""


def data_url(media_type: str, content: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


@asynccontextmanager
async def gateway(
    folder: Path, *, wire: str = "chat", has_store: bool = True, **capabilities: bool
) -> AsyncIterator[tuple[httpx.AsyncClient, ScriptedUpstream]]:
    async with ScriptedUpstream() as upstream:
        upstream.on("/chat/completions", chat_text("read"))
        upstream.on("/responses", responses_text("read"))
        upstream.on("/messages", anthropic_text("read"))
        upstream.on("/messages/count_tokens", json_reply({"input_tokens": 7}))
        config = {
            "auth": {"keys": [{"name": name, "key": key} for name, key in KEYS.items()]},
            "store": {"url": ready_sqlite(folder / "store.db") if has_store else None},
            "files": {"path": str(folder / "files")},
            "server": {"max_body_mb": 1},
            "providers": {"up": {"base_url": upstream.url, **PROVIDERS.get(wire, {**COMPATIBLE, "dialects": [wire]})}},
            "models": {"*": {"provider": "up", "capabilities": capabilities}},
        }
        with serving(config) as served:
            headers = {"authorization": f"Bearer {KEYS['ann']}"}
            async with httpx.AsyncClient(base_url=served.v1, headers=headers, trust_env=False, timeout=60) as client:
                yield client, upstream


async def upload(client: httpx.AsyncClient, name: str, content: bytes, owner: str = "ann") -> str:
    reply = await client.post(
        "/files",
        data={"purpose": "user_data"},
        files={"file": (name, content)},
        headers={"authorization": f"Bearer {KEYS[owner]}"},
    )
    assert reply.status_code == 200, reply.text
    file_id: str = reply.json()["id"]
    return file_id


def ask_responses(*parts: Json) -> tuple[str, Json]:
    return "/responses", {"model": "m", "input": [{"role": "user", "content": list(parts)}]}


def ask_chat(*parts: Json) -> tuple[str, Json]:
    return "/chat/completions", {"model": "m", "messages": [{"role": "user", "content": list(parts)}]}


def ask_messages(*blocks: Json) -> tuple[str, Json]:
    return "/messages", {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": list(blocks)}]}


def ask_agui(*parts: Json) -> tuple[str, Json]:
    messages = [{"id": "1", "role": "user", "content": list(parts)}]
    return "/agui/m", {"threadId": "t", "runId": "r", "messages": messages}


WAYS: dict[str, tuple[Callable[..., tuple[str, Json]], Callable[[str], Json], str]] = {
    "responses": (
        ask_responses,
        lambda file_id: {"type": "input_file", "file_id": file_id},
        "input[0].content[0].file_id",
    ),
    "chat": (
        ask_chat,
        lambda file_id: {"type": "file", "file": {"file_id": file_id}},
        "messages[0]",
    ),
    "messages": (
        ask_messages,
        lambda file_id: {"type": "document", "source": {"type": "file", "file_id": file_id}},
        "messages[0].content[0].source.file_id",
    ),
    "agui": (
        ask_agui,
        lambda file_id: {"type": "document", "source": {"type": "file", "value": file_id}},
        "messages[0]",
    ),
}
"""API -> its request, its part that names a file, and the parameter of an error about it."""

IMAGES: dict[str, tuple[Callable[..., tuple[str, Json]], Callable[[str], Json]]] = {
    "responses": (ask_responses, lambda file_id: {"type": "input_image", "file_id": file_id, "detail": "low"}),
    "messages": (
        ask_messages,
        lambda file_id: {"type": "image", "source": {"type": "file", "file_id": file_id}},
    ),
}


def sent_parts(upstream: ScriptedUpstream) -> list[Json]:
    body = upstream.requests[-1].json
    content = (body["messages"] if "messages" in body else body["input"])[0]["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


@pytest.mark.parametrize("api", WAYS)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_text_is_read_by_a_model_without_files(tmp_path: Path, api: str, stream: bool) -> None:
    ask, part, _ = WAYS[api]
    async with gateway(tmp_path, files=False) as (client, upstream):
        file_id = await upload(client, "notes.txt", "Schlüssel".encode())
        path, body = ask(part(file_id))
        reply = await client.post(path, json={**body, "stream": stream})
        assert reply.status_code == 200, reply.text
    assert sent_parts(upstream) == [{"type": "text", "text": "notes.txt:\nSchlüssel"}]


@pytest.mark.parametrize("api", WAYS)
async def test_a_file_is_sent_as_data_to_a_model_with_files(tmp_path: Path, api: str) -> None:
    ask, part, _ = WAYS[api]
    async with gateway(tmp_path, files=True) as (client, upstream):
        path, body = ask(part(await upload(client, "a.pdf", PDF)))
        assert (await client.post(path, json=body)).status_code == 200
    file = {"file_data": data_url("application/pdf", PDF), "filename": "a.pdf"}
    assert sent_parts(upstream) == [{"type": "file", "file": file}]


@pytest.mark.parametrize("api", IMAGES)
async def test_an_image_is_sent_as_a_data_url(tmp_path: Path, api: str) -> None:
    ask, part = IMAGES[api]
    async with gateway(tmp_path, images=True) as (client, upstream):
        path, body = ask(part(await upload(client, "renamed.txt", PNG)))
        assert (await client.post(path, json=body)).status_code == 200
    (sent,) = sent_parts(upstream)
    assert sent["image_url"]["url"] == data_url("image/png", PNG)


@pytest.mark.parametrize("api", WAYS)
async def test_unknown_and_foreign_files_are_refused_before_the_model_is_asked(tmp_path: Path, api: str) -> None:
    ask, part, param = WAYS[api]
    async with gateway(tmp_path) as (client, upstream):
        foreign = await upload(client, "a.txt", b"of bob", owner="bob")
        texts = set()
        for file_id in (foreign, UNKNOWN):
            path, body = ask(part(file_id))
            for stream in (False, True):
                reply = await client.post(path, json={**body, "stream": stream})
                error = reply.json()["error"]
                assert reply.status_code == 404
                texts.add(error["message"].replace(file_id, "ID"))
                if api == "messages":
                    assert error["message"].startswith(f"{param}: ")
                else:
                    assert (error["code"], error["param"]) == ("file_not_found", param)
        assert len(texts) == 1
        assert upstream.requests == []


async def test_a_model_without_files_is_not_sent_a_file_that_is_no_text(tmp_path: Path) -> None:
    async with gateway(tmp_path, files=False) as (client, upstream):
        path, body = ask_responses({"type": "input_file", "file_id": await upload(client, "a.pdf", PDF)})
        reply = await client.post(path, json=body)
        assert (reply.status_code, reply.json()["error"]["param"]) == (400, "input[0]")
        assert upstream.requests == []


async def test_an_image_part_needs_an_image(tmp_path: Path) -> None:
    async with gateway(tmp_path, images=True) as (client, upstream):
        path, body = ask_responses({"type": "input_image", "file_id": await upload(client, "a.png", b"no image")})
        error = (await client.post(path, json=body)).json()["error"]
        assert error["param"] == "input[0].content[0].file_id"
        assert "PNG, JPEG, GIF or WebP" in error["message"]
        assert upstream.requests == []


async def test_files_of_a_request_have_the_limit_of_a_body_together(tmp_path: Path) -> None:
    async with gateway(tmp_path, files=True) as (client, upstream):
        ids = [await upload(client, "a.txt", b"x" * 600_000) for _ in range(2)]
        # A file that is named twice is sent twice.
        for named, place in ((ids, 1), ([ids[0], ids[0]], 0)):
            path, body = ask_responses(*({"type": "input_file", "file_id": file_id} for file_id in named))
            error = (await client.post(path, json=body)).json()["error"]
            assert error["param"] == f"input[0].content[{place}].file_id"
            assert "server.max_body_mb" in error["message"]
        assert upstream.requests == []


@pytest.mark.parametrize("wire", ["chat", "responses"])
async def test_what_is_stored_names_the_file_and_later_turns_read_it_again(tmp_path: Path, wire: str) -> None:
    async with gateway(tmp_path, wire=wire, files=False) as (client, upstream):
        file_id = await upload(client, "notes.txt", b"mat")
        path, body = ask_responses({"type": "input_file", "file_id": file_id})
        first = (await client.post(path, json=body)).json()
        items = (await client.get(f"/responses/{first['id']}/input_items")).json()["data"]
        assert items[0]["content"] == [{"type": "input_file", "file_id": file_id}]
        second = {"model": "m", "input": "And?", "previous_response_id": first["id"]}
        reply = await client.post("/responses", json=second)
        assert reply.status_code == 200, reply.text
        (part,) = sent_parts(upstream)
        assert part["text"] == "notes.txt:\nmat"
        await client.delete(f"/files/{file_id}")
        reply = await client.post("/responses", json=second)
        assert (reply.status_code, reply.json()["error"]["code"]) == (404, "file_not_found")


async def test_a_job_reads_its_files(tmp_path: Path) -> None:
    async with gateway(tmp_path, files=False) as (client, upstream):
        path, body = ask_responses({"type": "input_file", "file_id": await upload(client, "notes.txt", b"mat")})
        reply = await client.post(path, json={**body, "background": True, "stream": True})
        assert b"response.completed" in reply.content
    assert sent_parts(upstream)[0]["text"] == "notes.txt:\nmat"


async def test_without_a_store_ids_are_those_of_the_upstream(tmp_path: Path) -> None:
    async with gateway(tmp_path, wire="responses", has_store=False, files=True) as (client, upstream):
        path, body = ask_responses({"type": "input_file", "file_id": UNKNOWN})
        assert (await client.post(path, json=body)).status_code == 200
    assert sent_parts(upstream) == [{"type": "input_file", "file_id": UNKNOWN}]


@pytest.mark.parametrize("files", [False, True])
async def test_a_compaction_returns_files_by_their_ids(tmp_path: Path, files: bool) -> None:
    async with gateway(tmp_path, files=files) as (client, _):
        text, image = await upload(client, "notes.txt", b"The keys."), await upload(client, "a.png", PNG)
        parts: list[Json] = [
            {"type": "input_file", "file_id": text},
            {"type": "input_image", "file_id": image},
            {"type": "input_text", "text": "Where?"},
        ]
        items = [{"role": "user", "content": parts}]
        compacted = await client.post("/responses/compact", json={"model": "m", "input": items})
        assert compacted.status_code == 200, compacted.text
        returned = compacted.json()["output"]
        assert [part.get("file_id") for part in returned[0]["content"]] == [text, image, None]
        assert "The keys." not in str(returned[0])
        assert "base64" not in str(returned[0])
        again = await client.post("/responses", json={"model": "m", "input": returned})
        assert again.status_code == 200, again.text


def relayed_messages(file_id: str) -> dict[str, list[Json]]:
    source = {"type": "file", "file_id": file_id}
    result = {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "image", "source": source}]}
    return {
        "a block": [{"role": "user", "content": [{"type": "image", "source": source}]}],
        "a result": [
            {"role": "user", "content": "Look."},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "look", "input": {}}]},
            {"role": "user", "content": [result]},
        ],
    }


@pytest.mark.parametrize("path", ["/messages", "/messages/count_tokens"])
@pytest.mark.parametrize("place", relayed_messages(""))
async def test_files_are_not_relayed_to_anthropic_by_their_ids(tmp_path: Path, path: str, place: str) -> None:
    async with gateway(tmp_path, wire="messages") as (client, upstream):
        body = {"model": "m"} if "count" in path else {"model": "m", "max_tokens": 9}
        messages = relayed_messages(await upload(client, "a.png", PNG))[place]
        reply = await client.post(path, json={**body, "messages": messages})
        assert reply.status_code == 200, reply.text
        (request,) = upstream.requests
        assert request.path.endswith(path)
        assert base64.b64encode(PNG).decode() in request.content.decode()
        for file_id in (await upload(client, "a.png", PNG, owner="bob"), UNKNOWN):
            messages = relayed_messages(file_id)[place]
            assert (await client.post(path, json={**body, "messages": messages})).status_code == 404
        assert upstream.requests == [request]
