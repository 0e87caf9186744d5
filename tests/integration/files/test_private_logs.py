"""The log of a whole session with files, searches and prompts has ids, counts and sizes, and nothing that was said."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
from openai import APIStatusError, AsyncOpenAI

from tests.integration.web_search.web_server import WebReply, WebRequest, json_reply, web_server
from tests.polling import wait_until
from tests.serving import command, read_whole_lines
from tests.upstream import ScriptedUpstream, chat_calls, chat_text

TOOLS: Final = ("file_search", "web_search", "open_page", "find_in_page")
MARK: Final = "zqxj"
"""Begins every text of the session. No id, which is hexadecimal, has it."""


def mark(name: str) -> str:
    return f"{MARK}{name}"


class Session:
    """One client that uses everything, with marked texts only."""

    def __init__(self, client: AsyncOpenAI, model: ScriptedUpstream, web: str) -> None:
        self._client = client
        self._model = model
        self._web = web

    async def run(self) -> None:
        file_id = await self._upload()
        store_id = await self._fill_store(file_id)
        await self._ask(store_id)
        await self._use_prompts()
        await self._be_refused(store_id)
        await self._client.vector_stores.delete(store_id)
        await self._client.files.delete(file_id)

    async def _upload(self) -> str:
        text = f"{mark('document')} cats sleep".encode()
        file = await self._client.files.create(file=(mark("name.txt"), text), purpose="assistants")
        await self._client.files.content(file.id)
        upload = await self._client.uploads.create(
            bytes=4, filename=mark("parts.txt"), mime_type="text/plain", purpose="user_data"
        )
        part = await self._client.uploads.parts.create(upload.id, data=MARK.encode())
        await self._client.uploads.complete(upload.id, part_ids=[part.id])
        return file.id

    async def _fill_store(self, file_id: str) -> str:
        stores = self._client.vector_stores
        store = await stores.create(name=mark("store"), description=mark("description"), metadata={"a": mark("meta")})
        attached = await stores.files.create_and_poll(
            file_id, vector_store_id=store.id, attributes={"topic": mark("attribute")}
        )
        damaged = await self._client.files.create(
            file=(mark("damaged.pdf"), b"%PDF-1.7 " + MARK.encode()), purpose="assistants"
        )
        failed = await stores.files.create_and_poll(damaged.id, vector_store_id=store.id)
        assert (attached.status, failed.status) == ("completed", "failed")
        filters: Any = {"type": "eq", "key": "topic", "value": mark("attribute")}
        found = await stores.search(store.id, query=f"{mark('query')} cats", filters=filters)
        assert len(found.data) == 1
        return store.id

    async def _ask(self, store_id: str) -> None:
        def arguments(**values: Any) -> str:
            return orjson.dumps(values).decode()

        page = f"{self._web}/page?q={mark('url')}"
        self._model.on(
            "/chat/completions",
            chat_calls(("file_search", arguments(queries=[f"{mark('asked')} cats"]))),
            chat_calls(
                ("web_search", arguments(queries=[mark("web")])), ("open_page", arguments(url=page)),
                ("find_in_page", arguments(url=f"{self._web}/gone?q={mark('gone')}", pattern=mark("pattern"))),
            ),
            chat_text(f"{mark('answer')} 【1】 【2】"),
        )  # fmt: skip
        tools: Any = [{"type": "file_search", "vector_store_ids": [store_id]}, {"type": "web_search"}]
        response = await self._client.responses.create(
            model="m", input=mark("question"), tools=tools, include=["gateway.report"]  # type: ignore[list-item]
        )  # fmt: skip
        report = response.model_dump()["gateway_report"]["tools"]
        assert {name: each["calls"] for name, each in report.items()} == dict.fromkeys(TOOLS, 1)
        assert report["find_in_page"]["failed"] == 1

    async def _use_prompts(self) -> None:
        text = f"{mark('instructions')} {{{{{mark('variable')}}}}}"
        prompt: Any = await self._client.post(
            "/prompts", body={"name": mark("prompt"), "instructions": text}, cast_to=object
        )
        self._model.on("/chat/completions", chat_text(mark("answer")))
        used: Any = {"id": prompt["id"], "variables": {mark("variable"): mark("value")}}
        await self._client.responses.create(model="m", input=mark("question"), prompt=used)

    async def _be_refused(self, store_id: str) -> None:
        refused: list[Callable[[], Any]] = [
            lambda: self._client.files.create(file=(f"{mark('bad')}\u202e.txt", b"x"), purpose="assistants"),
            lambda: self._client.files.create(file=("a.txt", b"x"), purpose=mark("purpose")),  # type: ignore[arg-type]
            lambda: self._client.vector_stores.search(store_id, query=mark("long") * 5000),
            lambda: self._client.vector_stores.search(
                store_id, query="x", filters={"type": mark("kind"), "key": "a", "value": "b"}  # type: ignore[arg-type]
            ),
            lambda: self._client.responses.create(
                model="m", input="x", tools=[{"type": "web_search", "filters": {"allowed_domains": [f"{MARK}://x"]}}]
            ),
        ]  # fmt: skip
        for attempt in refused:
            with pytest.raises(APIStatusError) as failed:
                await attempt()
            assert failed.value.status_code == 400


def _answer_search(_: WebRequest) -> WebReply:
    return json_reply({"results": [{"url": f"http://a.example/?q={MARK}", "title": mark("title"), "content": MARK}]})


async def test_no_line_has_a_text_a_query_or_a_name(tmp_path: Path) -> None:
    pages: Any = {"/search": _answer_search, "/page": WebReply(mark("page").encode()), "/gone": WebReply(status=404)}
    async with web_server(pages) as web, ScriptedUpstream() as model:
        config = {
            "store": {"url": f"sqlite+aiosqlite:///{tmp_path}/store.sqlite"},
            "files": {"path": str(tmp_path / "files")},
            "egress": {"allow": ["127.0.0.1"]},
            "tools": {"web_search": {"engine": "searxng", "url": web.url}},
            "providers": {"up": {"type": "openai_compatible", "base_url": model.url}},
            "models": {"m": {"provider": "up"}},
        }
        with command(config, tmp_path, forked=True) as gateway:
            async with AsyncOpenAI(base_url=gateway.v1, api_key="key", max_retries=0) as client:
                await Session(client, model, web.url).run()
            await wait_until(lambda: _read_tool_lines(gateway.log))
        log, lines = gateway.read_log(), _read_tool_lines(gateway.log)
    assert MARK not in log
    assert {name for line in lines for name in line["tools"]} == {*TOOLS}
    assert all(isinstance(count, int) for line in lines for each in line["tools"].values() for count in each.values())


def _read_tool_lines(log: Path) -> list[Any]:
    lines = [orjson.loads(line) for line in read_whole_lines(log).splitlines()]
    return [line for line in lines if "tools" in line]
