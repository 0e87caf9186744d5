"""Servers as processes of their own on one database, to be killed; and their clients."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.serving import Command, Gateway, command

Json = dict[str, Any]

PATIENCE_S = 60.0
_ENDS = ("response.completed", "response.incomplete", "response.failed", "error")


@contextmanager
def replica(
    folder: Path,
    store_url: str,
    upstream_url: str,
    *,
    store: Json | None = None,
    within: Any = (),
    **sections: Any,
) -> Iterator[Command]:
    """Yields a ready server with a folder of its own.

    `store` extends its section, `sections` replace others; `within` is that of `command`.
    """
    folder.mkdir()
    provider = {"type": "openai_compatible", "base_url": upstream_url, "retries": 0}
    config: Json = {
        "server": {"drain_s": 0.2},
        "store": {"url": store_url, "poll_s": 0.05, **(store or {})},
        "providers": {"chat": provider},
        "models": {"lasting": {"provider": "chat", "resumable": True}, "*": {"provider": "chat"}},
        **sections,
    }
    with command(config, folder, within=within, forked=not within) as server:
        yield server


def kill(server: Command) -> None:
    """Kills the server by SIGKILL, and waits for its end."""
    server.process.kill()
    server.process.wait()


@asynccontextmanager
async def client(server: Command | Gateway) -> AsyncIterator["Client"]:
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        base_url=server.v1, timeout=PATIENCE_S, limits=limits, verify=False, trust_env=False
    ) as http:
        yield Client(http)


class Client:
    """A client of one server."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http
        self._ready = http.base_url.join("/readyz")

    async def post(self, **body: Any) -> httpx.Response:
        return await self.http.post("/responses", json={"model": "some-model", **body})

    async def create(self, **body: Any) -> Json:
        """The response to what must succeed."""
        answer = await self.post(**body)
        assert answer.status_code == 200, answer.text
        response: Json = answer.json()
        return response

    async def wrong(self) -> str | None:
        """Returns the problem of the store in `/readyz`."""
        answer = await self.http.get(self._ready)
        assert answer.status_code == 200, answer.text
        wrong: str | None = answer.json().get("degraded", {}).get("store")
        return wrong

    async def raw(self, response_id: str) -> bytes:
        """A stored response, byte for byte."""
        answer = await self.http.get(f"/responses/{response_id}")
        assert answer.status_code == 200, answer.text
        return answer.content

    async def read(self, response_id: str) -> Json:
        response: Json = json.loads(await self.raw(response_id))
        return response

    async def input_texts(self, response_id: str) -> list[str]:
        """The texts of its input items."""
        answer = await self.http.get(f"/responses/{response_id}/input_items?order=asc&limit=100")
        assert answer.status_code == 200, answer.text
        return [part["text"] for item in answer.json()["data"] for part in item["content"]]

    @asynccontextmanager
    async def stream(self, method: str = "POST", path: str = "/responses", **body: Any) -> AsyncIterator["Stream"]:
        content = json.dumps({"model": "some-model", "stream": True, **body}) if method == "POST" else None
        async with self.http.stream(method, path, content=content) as answer:
            yield Stream(answer)


class Stream:
    """The events of one response, as far as they were read."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self.events: list[Json] = []
        self._lines = answer.aiter_lines()

    @property
    def response_id(self) -> str:
        response_id: str = self.events[0]["response"]["id"]
        return response_id

    async def read_to(self, kind: str) -> Json:
        """Reads up to the next event of this type. Raises StopAsyncIteration if the stream ends before it."""
        async for line in self._lines:
            if line.startswith("data: {"):
                self.events.append(json.loads(line.removeprefix("data: ")))
                if self.events[-1]["type"] == kind:
                    return self.events[-1]
        raise StopAsyncIteration(f"no {kind} in {self.kinds}")

    async def read_all(self) -> Json:
        """Reads to the end of the stream. Returns its terminal event, of which there must be one."""
        with_end = [line async for line in self._lines if line]
        self.events += [json.loads(line.removeprefix("data: ")) for line in with_end if line.startswith("data: {")]
        assert with_end[-1] == "data: [DONE]", with_end[-3:]
        ends = [event for event in self.events if event["type"] in _ENDS]
        assert len(ends) == 1, self.kinds
        assert self.events[-1] is ends[0]
        return ends[0]

    @property
    def kinds(self) -> list[str]:
        return [event["type"] for event in self.events]


def text(response: Json) -> str:
    return "".join(part["text"] for item in response["output"] for part in item.get("content", ()))
