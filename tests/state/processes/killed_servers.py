"""What tests of killed servers share: replies that stop half-way, and the objects that are stored afterwards."""

import asyncio

from tests.polling import wait_until
from tests.state.processes import database_observer
from tests.state.replicas import Client, Json
from tests.upstream import Pause, Reply
from tests.upstream.builders import DONE, SSE, chat_chunk, data_frame, text_chunks
from tests.upstream.script import Exchange

ACTIVE = ("queued", "in_progress")


class Paused:
    """An upstream's reply with a pause in its middle. `said` is set once all of it has been sent."""

    def __init__(self, *before: str, after: str | None = None) -> None:
        self.go_on, self.said = asyncio.Event(), asyncio.Event()
        pieces = [chat_chunk({"content": piece}) for piece in before]
        rest = text_chunks(*([after] if after else ()))[1:]
        frames = [data_frame(chunk) for chunk in [text_chunks()[0], *pieces]]
        self._reply = Reply(headers=SSE, body=[*frames, Pause(self.go_on), *map(data_frame, rest), DONE])

    async def __call__(self, exchange: Exchange) -> None:
        await self._reply(exchange)
        self.said.set()


def background(store_url: str, **more: int) -> Json:
    """A server on a SQLite file knows at once that the other server died; on PostgreSQL the lease has to expire."""
    return {"lease_s": 60.0 if store_url.startswith("sqlite") else 3.0, **more}


async def is_stored(asking: Client, response_id: str) -> bool:
    """A response's beginning is written while its first tokens leave."""
    return (await asking.http.get(f"/responses/{response_id}")).status_code == 200


async def is_waiting(store_url: str, event: str) -> bool:
    """Whether a gateway waits in PostgreSQL for this."""
    return await database_observer.count_waiting(store_url, event) > 0


async def has_ended(asking: Client, response_id: str) -> bool:
    return (await asking.read(response_id))["status"] not in ACTIVE


async def wait_until_orphaned(asking: Client, response_id: str, store_url: str) -> Json:
    """Returns a response of a killed server, once it is orphaned: at once if no other server can be working on it."""
    response = await asking.read(response_id)
    if response["status"] in ACTIVE and not store_url.startswith("sqlite"):
        await wait_until(has_ended, asking, response_id)
        return await asking.read(response_id)
    return response


def check_interrupted(response: Json) -> None:
    assert (response["status"], (response["error"] or {}).get("code")) == ("failed", "interrupted")


class Before:
    """The objects that a server stored before it was killed."""

    def __init__(self) -> None:
        self.last = ""
        self._paths: list[str] = []

    async def fill(self, asking: Client) -> None:
        """A chain of two, a conversation with a turn, a completion."""
        first = await asking.create(
            input="One \u2014 \u00fc\u2028", metadata={"z": "1", "a": "2"}, instructions="Be brief."
        )
        second = await asking.create(input="Two", previous_response_id=first["id"])
        self.last = second["id"]
        conversation = (await asking.http.post("/conversations", json={"metadata": {"k": "v"}})).json()["id"]
        third = await asking.create(input="Three", conversation=conversation)
        body = {"model": "some-model", "messages": [{"role": "user", "content": "Four"}], "store": True}
        completion = (await asking.http.post("/chat/completions", json=body)).json()["id"]
        for response in (first, second, third):
            self._paths += [f"/responses/{response['id']}", f"/responses/{response['id']}/input_items"]
        self._paths += [f"/conversations/{conversation}", f"/conversations/{conversation}/items"]
        self._paths += [f"/chat/completions/{completion}", f"/chat/completions/{completion}/messages"]

    async def bodies(self, asking: Client) -> list[bytes]:
        """Returns all objects as bytes."""
        answers = [await asking.http.get(path) for path in self._paths]
        assert {answer.status_code for answer in answers} == {200}
        return [answer.content for answer in answers]
