"""What binds turns to an upstream: reasoning that only its maker can read, and the beginning of a prompt."""

from typing import Any

import httpx
import pytest

from tests.faults.upstreams.test_attempts import rejected
from tests.serving import Gateway, serving
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import chat_json, chat_text

Json = dict[str, Any]

OPAQUE = [{"type": "reasoning.encrypted", "data": "opaque", "id": "r1", "format": "x", "index": 0}]


async def post(running: Gateway, path: str, **body: Any) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        return await client.post(f"{running.v1}{path}", json={"model": "m", **body})


def configure(first: str, second: str, *, realm: str | None = None, **model: Any) -> Json:
    providers = {
        name: {"type": "openai_compatible", "base_url": url, "realm": realm, "dialects": ["chat"]}
        for name, url in (("first", first), ("second", second))
    }
    return {"server": {"drain_s": 0.2}, "store": {"url": None}, "providers": providers, "models": {"m": model}}


@pytest.mark.parametrize(
    ("is_opaque", "realm", "status"), [(True, None, 503), (True, "one account", 200), (False, None, 200)]
)
async def test_opaque_reasoning_in_the_input_is_for_its_maker(is_opaque: bool, realm: str | None, status: int) -> None:
    thoughts: Json = {"reasoning_details": OPAQUE} if is_opaque else {"reasoning": "I think."}
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(chat_json("Hi.", **thoughts), rejected(503))
        second.script(chat_text("Hello."))
        rows = [{"provider": "first"}, {"provider": "second", "tier": 1}]
        with serving(configure(first.url, second.url, realm=realm, upstreams=rows)) as running:
            sealing = {"include": ["reasoning.encrypted_content"], "store": False}
            begun = await post(running, "/responses", input="Hi", **sealing)
            output = begun.json()["output"]
            question = [{"role": "user", "content": "Hi"}, *output, {"role": "user", "content": "And?"}]
            reply = await post(running, "/responses", input=question, **sealing)
    assert [item["type"] for item in output] == ["reasoning", "message"]
    assert reply.status_code == status, reply.text
    assert len(second.requests) == (status == 200)


async def test_reasoning_of_an_upstream_that_gets_no_new_turns_is_lost_as_that_of_one_that_is_gone() -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(chat_json("Hi.", reasoning_details=OPAQUE))
        second.script(chat_text("Hello."))
        rows: list[Json] = [{"provider": "first"}, {"provider": "second", "tier": 1}]
        sealing = {"include": ["reasoning.encrypted_content"], "store": False}
        config = {**configure(first.url, second.url, upstreams=rows), "sealing": {"keys": "A" * 43 + "="}}
        with serving(config) as running:
            output = (await post(running, "/responses", input="Hi", **sealing)).json()["output"]
        rows[0] = {"provider": "first", "weight": 0, "tier": 1}
        with serving(config) as running:
            question = [{"role": "user", "content": "Hi"}, *output, {"role": "user", "content": "And?"}]
            reply = await post(running, "/responses", input=question, **sealing)
    assert (reply.status_code, reply.headers["x-gateway-upstream"]) == (200, "second"), reply.text
    assert "reasoning" in reply.headers["x-gateway-loss"]


async def test_relayed_prompts_that_begin_alike_go_to_one_upstream() -> None:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(chat_text("Hi."))
        second.script(chat_text("Hi."))
        rows = [{"provider": "first"}, {"provider": "second"}]
        with serving(configure(first.url, second.url, upstreams=rows, balance="prefix")) as running:
            upstreams: list[set[str]] = []
            for instructions in range(12):
                names: set[str] = set()
                for question in range(3):
                    messages = [
                        {"role": "system", "content": f"You are number {instructions}. {'Be short. ' * 200}"},
                        {"role": "user", "content": f"Question {question}"},
                    ]
                    reply = await post(running, "/chat/completions", messages=messages, seed=7)
                    names.add(reply.headers["x-gateway-upstream"])
                upstreams.append(names)
        bodies = [request.json for request in (*first.requests, *second.requests)]
    assert all(len(names) == 1 for names in upstreams)
    assert set.union(*upstreams) == {"first", "second"}
    assert all(body["seed"] == 7 for body in bodies)
