"""Whole replies of which one value is missing or of another type: clients get an answer or one named failure, and a
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
from tests.fuzz.struck_bodies import strike_places
from tests.fuzz.whole_response import WHOLE_RESPONSE
from tests.serving import Gateway, serving
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import json_reply

GOLDEN: Final = Path(__file__).parents[1] / "golden"
RECORDINGS: Final = {
    "chat": ("vllm_tool_parallel.json", "vllm_reasoning_text.json"),
    "responses": ("vllm_tool_parallel.json",),
    "anthropic": ("published-whole-thinking-tool.json", "published-whole-web-search.json"),
    "gemini": ("published-grounded.json", "published-call.json"),
    "ollama": ("published-calls-with-ids.json", "published-thinking.json"),
}
"""The upstream's dialect -> recordings with most of its fields."""

CLIENTS: Final = (RESPONSES, CHAT, MESSAGES, OLLAMA, GEMINI)


@pytest.mark.parametrize("dialect", RECORDINGS)
async def test_every_client_gets_an_answer_or_one_named_failure(dialect: str) -> None:
    async with ScriptedUpstream() as upstream, client() as asking:
        with serving(config(upstream.url, dialect, silence_s=LONG_S, answer_s=LONG_S)) as gateway:
            replies = [_read(dialect, recording) for recording in RECORDINGS[dialect]]
            for number, whole in enumerate([*replies, WHOLE_RESPONSE] if dialect == "responses" else replies):
                for struck, place, sample in strike_places(whole):
                    for path in CLIENTS:
                        upstream.script(json_reply(struck))
                        reply = await asking.post(_url_of(gateway, path), json=question(path, stream=False))
                        message = f"reply {number}, {place} is {sample}, for {path}"
                        assert reply.status_code not in (400, 500), message
                        assert reply.json(), message


async def test_a_stored_answer_is_continued_by_every_model_or_its_item_is_named(tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream, client() as asking:
        with _serving_all_dialects(upstream.url, tmp_path) as gateway:
            named = 0
            for struck, place, sample in strike_places(WHOLE_RESPONSE):
                upstream.script(json_reply(struck))
                stored = await asking.post(_url_of(gateway, RESPONSES), json=_ask("responses"))
                message = f"{place} is {sample}"
                if stored.status_code != 200:
                    assert stored.status_code == 502, message
                    continue
                for dialect in RECORDINGS:
                    upstream.script(json_reply(_read(dialect, RECORDINGS[dialect][0])))
                    body = {**_ask(dialect), "previous_response_id": stored.json()["id"]}
                    reply = await asking.post(_url_of(gateway, RESPONSES), json=body)
                    if reply.status_code == 400:
                        refusal = reply.json()["error"]["message"]
                        assert "cannot be read" in refusal or "no items of type 'x'" in refusal, (message, refusal)
                        named += 1
                    else:
                        assert reply.status_code == 200, (message, dialect, reply.text)
            assert named


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


def _url_of(gateway: Gateway, path: str) -> str:
    root = gateway.v1.removesuffix("/v1") if path == OLLAMA else gateway.v1
    return root + address_of(path, question(path, stream=False))


def _read(dialect: str, recording: str) -> Any:
    return orjson.loads((GOLDEN / dialect / recording).read_bytes())
