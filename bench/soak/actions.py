"""The mixed load of a soak: users that repeat actions, check the replies, and delete what they stored."""

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

import httpx

from bench.load.replies import FIRST_DELTA, Model, find_fault, parse_response_id
from bench.scenarios.measurement import WrongAnswers

_PACED = Model.named("bench-32-50ps")
_WHOLE = Model.named("bench-32")
_PAUSE_S = 0.1
_RESPONSES, _CHAT, _CONVERSATIONS = "/v1/responses", "/v1/chat/completions", "/v1/conversations"
_NOT_FOUND = "resp_00000000000000000000000000000000"

Action: TypeAlias = Callable[[httpx.AsyncClient], Coroutine[Any, Any, None]]


async def run_users(client: httpx.AsyncClient, count: int, until: Callable[[], bool]) -> int:
    """Runs `count` users until `until` returns True. Returns the number of finished actions.

    Raises a group of WrongAnswers for wrong answers and failed requests.
    """
    done = itertools.count()

    async def user(number: int) -> None:
        for action in itertools.islice(itertools.cycle(ACTIONS), number % len(ACTIONS), None):
            if until():
                return
            try:
                await action(client)
            except httpx.HTTPError as failure:
                raise WrongAnswers(f"{action.__name__}: {failure!r}") from failure
            next(done)
            await asyncio.sleep(_PAUSE_S)

    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(user(number))
    return next(done)


async def continue_response(client: httpx.AsyncClient) -> None:
    """Creates a stored response, and a second one that continues it."""
    first = await _read_stream(client, _RESPONSES, _request_body(_PACED, store=True))
    earlier = parse_response_id(first)
    answer = await _fetch_whole(client, _RESPONSES, _request_body(_WHOLE, store=True, previous_response_id=earlier))
    await _delete(client, f"{_RESPONSES}/{earlier}")
    await _delete(client, f"{_RESPONSES}/{answer['id']}")


async def use_conversation(client: httpx.AsyncClient) -> None:
    """Creates a conversation, and a response in it."""
    reply = await client.post(_CONVERSATIONS, json={})
    _expect_status(reply, 200)
    conversation_id = reply.json()["id"]
    answer = await _fetch_whole(client, _RESPONSES, _request_body(_WHOLE, store=True, conversation=conversation_id))
    await _delete(client, f"{_RESPONSES}/{answer['id']}")
    await _delete(client, f"{_CONVERSATIONS}/{conversation_id}")


async def resume_stream(client: httpx.AsyncClient) -> None:
    """Creates a background response, closes its stream early, and reads the stream again."""
    new_id = await _start_and_leave(client, _request_body(_PACED, store=True, background=True))
    url = f"{_RESPONSES}/{new_id}"
    async with client.stream("GET", url, params={"stream": "true", "starting_after": "0"}) as reply:
        _check_body(await reply.aread(), _PACED, responses=True, streamed=True)
    await _delete(client, url)


async def abandon_stream(client: httpx.AsyncClient) -> None:
    """Creates a response and closes its stream early, for good."""
    await _delete(client, f"{_RESPONSES}/{await _start_and_leave(client, _request_body(_PACED, store=True))}")


async def relay_chat(client: httpx.AsyncClient) -> None:
    """Sends one chat request that is streamed and one that is not."""
    question = {"messages": [{"role": "user", "content": "Say the tokens."}]}
    await _read_stream(client, _CHAT, {"model": _model_name(_PACED), **question})
    await _fetch_whole(client, _CHAT, {"model": _model_name(_WHOLE), **question})


async def name_missing_response(client: httpx.AsyncClient) -> None:
    """Sends a request that continues a response that does not exist. It is refused."""
    _expect_status(await client.post(_RESPONSES, json=_request_body(_WHOLE, previous_response_id=_NOT_FOUND)), 400)


ACTIONS: tuple[Action, ...] = (
    continue_response,
    relay_chat,
    resume_stream,
    abandon_stream,
    use_conversation,
    name_missing_response,
)


def _model_name(model: Model) -> str:
    return f"bench-{model.deltas}" + (f"-{model.per_second}ps" if model.per_second else "")


def _request_body(model: Model, **fields: Any) -> dict[str, Any]:
    return {"model": _model_name(model), "input": "Say the tokens.", **fields}


async def _read_stream(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> bytes:
    async with client.stream("POST", path, json=body | {"stream": True}) as reply:
        content = await reply.aread()
        _expect_status(reply, 200)
    _check_body(content, Model.named(body["model"]), responses=path == _RESPONSES, streamed=True)
    return content


async def _fetch_whole(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    reply = await client.post(path, json=body)
    _expect_status(reply, 200)
    _check_body(reply.content, Model.named(body["model"]), responses=path == _RESPONSES, streamed=False)
    answer: dict[str, Any] = reply.json()
    return answer


async def _start_and_leave(client: httpx.AsyncClient, body: dict[str, Any]) -> str:
    """Starts a stream and closes it after its first delta. Returns the id of the response."""
    content = b""
    async with client.stream("POST", _RESPONSES, json=body | {"stream": True}) as reply:
        async for piece in reply.aiter_raw():
            content += piece
            if FIRST_DELTA in content:
                break
        _expect_status(reply, 200)
    return parse_response_id(content)


async def _delete(client: httpx.AsyncClient, url: str) -> None:
    _expect_status(await client.delete(url), 200)


def _expect_status(reply: httpx.Response, status: int) -> None:
    if reply.status_code != status:
        raise WrongAnswers(f"{reply.request.method} {reply.request.url.path}: status {reply.status_code}")


def _check_body(body: bytes, model: Model, *, responses: bool, streamed: bool) -> None:
    if fault := find_fault(body, model, dialect="responses" if responses else "chat", streamed=streamed):
        raise WrongAnswers(fault)
