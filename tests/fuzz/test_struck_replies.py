"""Replies of which one value is missing or of another type: clients get an answer or one named failure, and a
stored one can be continued, or its reader is told which item cannot be read.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from tests.databases import ready_sqlite
from tests.faults.client_view import CHAT, GEMINI, MESSAGES, OLLAMA, RESPONSES, Json, address_of, client, question
from tests.faults.config import LONG_S, config
from tests.fuzz.damage.struck_bodies import MISSING, Place, strike_places
from tests.fuzz.recordings import GOLDEN, build_reply, read_streams
from tests.fuzz.whole_response import WHOLE_RESPONSE
from tests.serving import Gateway, serving
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import json_reply

RECORDINGS: Final = {
    "chat": ("vllm_tool_parallel.json", "vllm_reasoning_text.json"),
    "responses": ("vllm_tool_parallel.json",),
    "anthropic": ("published-whole-thinking-tool.json", "published-whole-web-search.json"),
    "gemini": ("published-grounded.json", "published-call.json"),
    "ollama": ("published-calls-with-ids.json", "published-thinking.json"),
}
"""The upstream's dialect -> recordings with most of its fields."""

CLIENTS: Final = (RESPONSES, CHAT, MESSAGES, OLLAMA, GEMINI)


@pytest.mark.parametrize("path", CLIENTS)
@pytest.mark.parametrize("dialect", RECORDINGS)
async def test_a_client_gets_an_answer_or_one_named_failure(dialect: str, path: str) -> None:
    async with ScriptedUpstream() as upstream, client() as asking:
        with serving(config(upstream.url, dialect, silence_s=LONG_S, answer_s=LONG_S)) as gateway:
            replies = [_read(dialect, recording) for recording in RECORDINGS[dialect]]
            for number, whole in enumerate([*replies, WHOLE_RESPONSE] if dialect == "responses" else replies):
                for struck, place, sample in strike_places(whole):
                    upstream.script(json_reply(struck))
                    reply = await asking.post(_url_of(gateway, path), json=question(path, stream=False))
                    message = f"reply {number}, {place} is {sample}"
                    assert reply.status_code not in (400, 500), message
                    assert reply.json(), message


@pytest.mark.parametrize("dialect", ["responses", "chat", "anthropic", "gemini"])
async def test_a_stored_answer_is_continued_by_any_model_or_its_item_is_named(dialect: str, tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream, client() as asking:
        with _serving_all_dialects(upstream.url, tmp_path) as gateway:
            for struck, place, sample in strike_places(WHOLE_RESPONSE, samples=(MISSING, 3, ["x"])):
                upstream.script(json_reply(struck))
                stored = await asking.post(_url_of(gateway, RESPONSES), json=_ask("responses"))
                message = f"{place} is {sample}"
                if stored.status_code != 200:
                    assert stored.status_code == 502, message
                    continue
                upstream.script(json_reply(_read(dialect, RECORDINGS[dialect][0])))
                body = {**_ask(dialect), "previous_response_id": stored.json()["id"]}
                reply = await asking.post(_url_of(gateway, RESPONSES), json=body)
                if reply.status_code == 400:
                    refusal = reply.json()["error"]["message"]
                    assert "cannot be read" in refusal, (message, refusal)
                else:
                    assert reply.status_code == 200, (message, reply.text)


@pytest.mark.parametrize("dialect", [*RECORDINGS, "harmony"])
async def test_every_client_gets_the_end_of_a_stream_with_a_value_of_another_type(dialect: str) -> None:
    async with ScriptedUpstream() as upstream, client() as asking:
        with serving(config(upstream.url, dialect, silence_s=LONG_S, answer_s=LONG_S)) as gateway:
            for chunks, place in _strike_streams(dialect):
                for path in CLIENTS:
                    upstream.script(build_reply(dialect, chunks))
                    reply = await asking.post(_url_of(gateway, path, stream=True), json=question(path, stream=True))
                    assert reply.status_code != 500, (place, path)
                    assert b"the gateway failed" not in reply.content, (place, path)


def _strike_streams(dialect: str) -> Iterator[tuple[list[Json], Place]]:
    """Yields recorded streams in which one value is a list, each kind of place once. A list is in no table."""
    known: set[tuple[Any, ...]] = set()
    for chunks in read_streams(dialect):
        for at, chunk in enumerate(chunks):
            for struck, place, _ in strike_places(chunk, samples=(["x"],)):
                kind = (chunk.get("type"), *[step for step in place if isinstance(step, str)])
                if kind not in known:
                    known.add(kind)
                    yield [*chunks[:at], struck, *chunks[at + 1 :]], place


@contextmanager
def _serving_all_dialects(url: str, folder: Path) -> Iterator[Gateway]:
    """Serves one model for each dialect of the upstream, named after it."""
    settings: Json = {"store": {"url": ready_sqlite(folder / "state.db")}, "providers": {}, "models": {}}
    for dialect in RECORDINGS:
        one = config(url, dialect, silence_s=LONG_S, answer_s=LONG_S)
        settings["providers"][dialect] = one["providers"]["upstream"]
        settings["models"][dialect] = {"provider": dialect}
    with serving(settings) as gateway:
        yield gateway


def _ask(model: str) -> Json:
    return question(RESPONSES, stream=False, store=True) | {"model": model}


def _url_of(gateway: Gateway, path: str, *, stream: bool = False) -> str:
    root = gateway.v1.removesuffix("/v1") if path == OLLAMA else gateway.v1
    return root + address_of(path, question(path, stream=stream))


def _read(dialect: str, recording: str) -> Any:
    return orjson.loads((GOLDEN / dialect / recording).read_bytes())
