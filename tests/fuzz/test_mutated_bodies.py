"""A thousand damaged bodies: each is answered well or refused by name, and what is sent upstream is well formed."""

import json
from collections.abc import Callable
from random import Random

import httpx
import orjson
import pytest

from tests.faults.client_view import CHAT, RESPONSES, Json, client, read
from tests.faults.config import LONG_S, config
from tests.faults.routes import ROUTES
from tests.fuzz.damage.mutations import mutated
from tests.fuzz.seeds import SEEDS
from tests.serving import serving
from tests.upstream import ScriptedUpstream
from tests.upstream.faults import CHAT as CHAT_ANSWER
from tests.upstream.faults import RESPONSES as RESPONSES_ANSWER
from tests.upstream.faults import sound
from translation.chat.client.lift import lift as lift_chat
from translation.chat.client.schema import keep_known as keep_known_chat
from translation.chat.client.schema import validate as validate_chat
from translation.responses.client.lift import lift as lift_responses
from translation.responses.schema.request import keep_known as keep_known_responses
from translation.responses.schema.request import validate as validate_responses

BODIES_PER_ROUTE = 250
ANSWERS = {"chat": CHAT_ANSWER, "responses": RESPONSES_ANSWER}
VALIDATORS = {"chat": validate_chat, "responses": validate_responses}
KNOWN_PARTS = {"chat": keep_known_chat, "responses": keep_known_responses}
LIFTS = {"chat": lift_chat, "responses": lift_responses}
EVERYTHING = dict.fromkeys(("images", "audio", "files", "json_schema", "logprobs", "choices"), True)
EVERY_SEED = [body for bodies in SEEDS.values() for body in bodies]


def assert_refused_by_name(reply: httpx.Response) -> None:
    assert reply.status_code == 400
    error = reply.json()["error"]
    assert list(error) == ["message", "type", "param", "code"]
    assert error["message"]
    assert error["type"] == "invalid_request_error"
    assert isinstance(error["param"], str), "the field that is wrong is named"
    assert isinstance(error["code"], str)


@pytest.mark.parametrize(("path", "dialect"), ROUTES.values(), ids=ROUTES)
async def test_a_damaged_body_is_answered_or_refused_by_name(path: str, dialect: str) -> None:
    random = Random(f"{path} {dialect}")
    is_relayed = (path, dialect) in ((CHAT, "chat"), (RESPONSES, "responses"))
    async with ScriptedUpstream() as upstream, client() as asking:
        upstream.script(sound(ANSWERS[dialect]))
        with serving(
            config(upstream.url, dialect, silence_s=LONG_S, answer_s=LONG_S, capabilities=EVERYTHING)
        ) as gateway:
            for number in range(BODIES_PER_ROUTE):
                body = mutated(random, random.choice(SEEDS[path]), EVERY_SEED)
                reply = await asking.post(gateway.v1 + path, content=orjson.dumps(body))
                try:
                    if reply.status_code != 200:
                        assert_refused_by_name(reply)
                        continue
                    assert read(path, reply, stream=body.get("stream") is True).ending == "completed"
                    sent = upstream.requests[-1].json
                    if is_relayed:  # the upstream judges the values
                        sent = KNOWN_PARTS[dialect](sent)
                    else:
                        VALIDATORS[dialect](_without_upstream_tiers(sent))
                    LIFTS[dialect](sent, relayed=True)
                except Exception as error:
                    error.add_note(f"body {number}: {json.dumps(body)}")
                    raise


@pytest.mark.parametrize(("path", "validate"), [(CHAT, validate_chat), (RESPONSES, validate_responses)])
def test_seeds_are_valid_before_they_are_damaged(path: str, validate: Callable[[Json], None]) -> None:
    for body in SEEDS[path]:
        validate(body)


def _without_upstream_tiers(sent: Json) -> Json:
    # Chat upstreams have tiers of their own, so chat clients may name any.
    return {name: value for name, value in sent.items() if name != "service_tier"}
