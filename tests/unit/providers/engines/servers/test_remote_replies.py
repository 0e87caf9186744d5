"""Log probabilities and invalid replies of engines behind HTTP."""

from contextlib import aclosing
from typing import Any

import pytest

from providers.engines.base import EngineDelta, GenerationRequest
from providers.engines.servers.llama_server import LlamaServerEngine
from providers.engines.servers.vllm_server import VllmServerEngine
from providers.errors import UpstreamBroken, UpstreamGarbled, UpstreamRejected
from tests.unit.providers.engines.servers.remote_engines import PROMPT, Start, llama, llama_end, pieces, vllm
from tests.upstream import Hang, ScriptedUpstream
from tests.upstream.builders import DONE, data_frame, json_reply, sse_reply


async def test_probabilities_of_completions_have_the_full_form(start: Start) -> None:
    given = {"tokens": ["é"], "token_logprobs": [-0.5], "top_logprobs": [{"é": -0.5, "a": -2.0}]}
    async with ScriptedUpstream() as server:
        server.on("/completions", sse_reply(vllm("é", [6], logprobs=given), vllm("", [], "stop"), DONE))
        first, last = await pieces(start(VllmServerEngine, server), top_logprobs=1)
        ours = {"token": "é", "logprob": -0.5, "bytes": [195, 169]}
        assert first.logprobs == [{**ours, "top_logprobs": [ours]}]
        assert last.logprobs is None


BROKEN: dict[str, tuple[list[bytes], type[Exception]]] = {
    "it breaks off": ([], UpstreamBroken),
    "it is no JSON": ([b"data: {\n\n"], UpstreamGarbled),
    "it is no object": ([b"data: 7\n\n"], UpstreamGarbled),
    "it is an error": ([data_frame({"error": {"message": "no", "code": 500}})], UpstreamRejected),
    "it has no text": ([data_frame({"choices": [{}]})], UpstreamGarbled),
    "it has no choices": ([data_frame({"choices": 7})], UpstreamGarbled),
}


@pytest.mark.parametrize(("frames", "error"), BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("kind", [LlamaServerEngine, VllmServerEngine])
async def test_an_invalid_reply_has_its_code(
    kind: type[Any], frames: list[bytes], error: type[Exception], start: Start
) -> None:
    async with ScriptedUpstream() as server:
        good = llama("a", [5], 1) if kind is LlamaServerEngine else vllm("a", [5])
        server.script(sse_reply(good, *frames))
        with pytest.raises(error):
            await pieces(start(kind, server))


@pytest.mark.parametrize("kind", [LlamaServerEngine, VllmServerEngine])
async def test_an_answer_that_is_no_stream_is_garbled(kind: type[Any], start: Start) -> None:
    async with ScriptedUpstream() as server:
        server.script(json_reply({"content": "a"}))
        with pytest.raises(UpstreamGarbled):
            await pieces(start(kind, server))


@pytest.mark.parametrize("kind", [LlamaServerEngine, VllmServerEngine])
async def test_closing_closes_the_connection(kind: type[Any], start: Start) -> None:
    async with ScriptedUpstream() as server:
        good = llama("a", [5], 1) if kind is LlamaServerEngine else vllm("a", [5])
        server.script(sse_reply(good, Hang()))
        async with aclosing(start(kind, server).generate(PROMPT, GenerationRequest(max_tokens=9))) as found:
            assert await anext(found) == EngineDelta("a", [5])
        await server.requests[0].closed


@pytest.mark.parametrize("kind", [LlamaServerEngine, VllmServerEngine])
async def test_connections_are_used_again(kind: type[Any], start: Start) -> None:
    end = llama_end("eos", 0) if kind is LlamaServerEngine else vllm("", [], "stop") + DONE
    async with ScriptedUpstream() as server:
        engine = start(kind, server)
        server.script(sse_reply(end))
        for _ in range(3):
            await pieces(engine)
        assert server.accepted == 1
