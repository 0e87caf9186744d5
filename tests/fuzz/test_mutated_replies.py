"""Recorded replies, damaged: clients get a well-formed answer or one named failure, and never an internal error."""

import json
from random import Random

import orjson
import pytest

from tests.faults.client_view import client, frames, question
from tests.faults.config import LONG_S, config
from tests.faults.routes import NATIVE_ROUTES, ROUTES
from tests.fuzz.damage.mutations import mutated
from tests.fuzz.recordings import build_reply, read_answers, read_streams
from tests.serving import serving
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import json_reply

REPLIES_PER_ROUTE = 80
WAYS = ROUTES | NATIVE_ROUTES

FORMS = pytest.mark.parametrize("stream", [True, False], ids=["streaming", "whole"])


@pytest.mark.parametrize(("path", "dialect"), WAYS.values(), ids=WAYS)
@FORMS
async def test_a_damaged_reply_is_forwarded_well_formed_or_reported(path: str, dialect: str, stream: bool) -> None:
    random = Random(f"{path} {dialect} {stream}")
    recordings = read_streams(dialect) if stream else read_answers(dialect)
    strangers = [whole for recording in recordings for whole in recording]
    async with ScriptedUpstream() as upstream, client() as asking:
        with serving(config(upstream.url, dialect, silence_s=LONG_S, answer_s=LONG_S)) as gateway:
            for number in range(REPLIES_PER_ROUTE):
                damaged = list(random.choice(recordings))
                at = random.randrange(len(damaged))
                damaged[at] = mutated(random, damaged[at], strangers)
                upstream.script(build_reply(dialect, damaged) if stream else json_reply(damaged[0]))
                reply = await asking.post(gateway.v1 + path, json=question(path, stream=stream))
                message = f"reply {number}, damaged at {at}: {json.dumps(damaged[at])}"
                assert b"internal_error" not in reply.content, message
                if reply.status_code != 200:
                    assert reply.status_code != 500, message
                    assert list(reply.json()["error"]) == ["message", "type", "param", "code"], message
                elif stream:
                    assert all(orjson.loads(data) for _, data in frames(reply.content)), message
                else:
                    assert reply.json(), message
