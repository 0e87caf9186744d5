"""The mixed load of a soak: users that each do one thing after another, check all of it, and delete what was kept."""

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

import httpx

from bench.answers import FIRST_DELTA, Model, find_fault, response_id
from bench.measure import WrongAnswers

_PACED = Model.named("bench-32-50ps")
_WHOLE = Model.named("bench-32")
_PAUSE_S = 0.1
_RESPONSES, _CHAT, _CONVERSATIONS = "/v1/responses", "/v1/chat/completions", "/v1/conversations"
_NOT_FOUND = "resp_00000000000000000000000000000000"

Deed: TypeAlias = Callable[[httpx.AsyncClient], Coroutine[Any, Any, None]]


async def users(client: httpx.AsyncClient, count: int, until: Callable[[], bool]) -> int:
    """How often something was done. Raises WrongAnswers (in a group) for what went wrong."""
    done = itertools.count()

    async def user(number: int) -> None:
        for deed in itertools.islice(itertools.cycle(DEEDS), number % len(DEEDS), None):
            if until():
                return
            try:
                await deed(client)
            except httpx.HTTPError as failure:
                raise WrongAnswers(f"{deed.__name__}: {failure!r}") from failure
            next(done)
            await asyncio.sleep(_PAUSE_S)

    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(user(number))
    return next(done)


async def kept_turns(client: httpx.AsyncClient) -> None:
    """Two turns, the second continues the first."""
    first = await _stream(client, _RESPONSES, _asked(_PACED, store=True))
    earlier = response_id(first)
    answer = await _whole(client, _RESPONSES, _asked(_WHOLE, store=True, previous_response_id=earlier))
    await _delete(client, f"{_RESPONSES}/{earlier}")
    await _delete(client, f"{_RESPONSES}/{answer['id']}")


async def conversation(client: httpx.AsyncClient) -> None:
    """A turn in a conversation."""
    began = await client.post(_CONVERSATIONS, json={})
    _expect(began, 200)
    place = began.json()["id"]
    answer = await _whole(client, _RESPONSES, _asked(_WHOLE, store=True, conversation=place))
    await _delete(client, f"{_RESPONSES}/{answer['id']}")
    await _delete(client, f"{_CONVERSATIONS}/{place}")


async def resumed(client: httpx.AsyncClient) -> None:
    """A response in the background whose stream is left and taken up again."""
    made = await _left(client, _asked(_PACED, store=True, background=True))
    url = f"{_RESPONSES}/{made}"
    async with client.stream("GET", url, params={"stream": "true", "starting_after": "0"}) as reply:
        _check(await reply.aread(), _PACED, responses=True, streamed=True)
    await _delete(client, url)


async def abandoned(client: httpx.AsyncClient) -> None:
    """A stream whose client goes away for good."""
    await _delete(client, f"{_RESPONSES}/{await _left(client, _asked(_PACED, store=True))}")


async def relayed(client: httpx.AsyncClient) -> None:
    """Chat, streamed and whole."""
    question = {"messages": [{"role": "user", "content": "Say the tokens."}]}
    await _stream(client, _CHAT, {"model": _name(_PACED), **question})
    await _whole(client, _CHAT, {"model": _name(_WHOLE), **question})


async def refused(client: httpx.AsyncClient) -> None:
    """A turn that continues what there is not."""
    _expect(await client.post(_RESPONSES, json=_asked(_WHOLE, previous_response_id=_NOT_FOUND)), 400)


DEEDS: tuple[Deed, ...] = (kept_turns, relayed, resumed, abandoned, conversation, refused)


def _name(model: Model) -> str:
    return f"bench-{model.deltas}" + (f"-{model.per_second}ps" if model.per_second else "")


def _asked(model: Model, **fields: Any) -> dict[str, Any]:
    return {"model": _name(model), "input": "Say the tokens.", **fields}


async def _stream(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> bytes:
    async with client.stream("POST", path, json=body | {"stream": True}) as reply:
        content = await reply.aread()
        _expect(reply, 200)
    _check(content, Model.named(body["model"]), responses=path == _RESPONSES, streamed=True)
    return content


async def _whole(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    reply = await client.post(path, json=body)
    _expect(reply, 200)
    _check(reply.content, Model.named(body["model"]), responses=path == _RESPONSES, streamed=False)
    answer: dict[str, Any] = reply.json()
    return answer


async def _left(client: httpx.AsyncClient, body: dict[str, Any]) -> str:
    """The id of a stream that was left at its first delta."""
    content = b""
    async with client.stream("POST", _RESPONSES, json=body | {"stream": True}) as reply:
        async for piece in reply.aiter_raw():
            content += piece
            if FIRST_DELTA in content:
                break
        _expect(reply, 200)
    return response_id(content)


async def _delete(client: httpx.AsyncClient, url: str) -> None:
    _expect(await client.delete(url), 200)


def _expect(reply: httpx.Response, status: int) -> None:
    if reply.status_code != status:
        raise WrongAnswers(f"{reply.request.method} {reply.request.url.path}: status {reply.status_code}")


def _check(body: bytes, model: Model, *, responses: bool, streamed: bool) -> None:
    if fault := find_fault(body, model, responses=responses, streamed=streamed):
        raise WrongAnswers(fault)
