"""Servers as engines: their requests, and how their replies are decoded."""

from typing import Any

import pytest

from providers.engines.base import EngineDelta, OutputConstraint, TokenPrompt
from providers.engines.servers.llama_server import LlamaServerEngine
from providers.engines.servers.vllm_server import VllmServerEngine
from providers.errors import UpstreamGarbled, UpstreamRateLimited, UpstreamRejected
from tests.unit.providers.engines.servers.remote_engines import Start, llama, llama_end, pieces, vllm
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import DONE, data_frame, error_reply, json_reply, sse_reply
from tests.upstream.script import Script
from translation.errors import Unrepresentable

Json = dict[str, Any]
CHAT: Json = {"messages": [{"role": "user", "content": "Hi"}], "chat_template_kwargs": {"enable_thinking": True}}


def vllm_end(cached: int | None = None) -> bytes:
    details = None if cached is None else {"cached_tokens": cached}
    return data_frame({"choices": [], "usage": {"prompt_tokens": 3, "prompt_tokens_details": details}})


@pytest.mark.parametrize(
    ("kind", "frame", "end"),
    [
        (LlamaServerEngine, llama("TEXT", [4], 1), llama_end("eos", 2)),
        (VllmServerEngine, vllm("TEXT", [4]), vllm("", [], "stop")),
    ],
)
async def test_a_character_split_over_two_pieces_is_joined(
    kind: type[Any], frame: bytes, end: bytes, start: Start
) -> None:
    halves = [frame.replace(b"TEXT", half) for half in (rb"a\ud83d", rb"\ude00b")]
    async with ScriptedUpstream() as server:
        server.on("/completion", sse_reply(*halves, end))
        server.on("/completions", sse_reply(*halves, end))
        server.on("/tokenize", json_reply({"tokens": [4]}))
        found = await pieces(start(kind, server))
    assert "".join(piece.text for piece in found) == "a😀b"


async def test_llama_renders_and_reports_its_window(start: Start) -> None:
    async with ScriptedUpstream() as server:
        engine = start(LlamaServerEngine, server)
        server.on("/props", json_reply({"default_generation_settings": {"n_ctx": 77}}))
        server.on("/apply-template", json_reply({"prompt": "user: Hi\n"}))
        server.on("/tokenize", json_reply({"tokens": [5, 6]}))
        assert engine.context_window is None
        assert await engine.render(CHAT) == TokenPrompt(tokens=[5, 6], tail="user: Hi\n")
        await engine.render(CHAT)
        assert engine.context_window == 77
        assert [request.path for request in server.requests].count("/props") == 1
        assert server.requests[1].json == CHAT
        assert server.requests[2].json == {"content": "user: Hi\n", "add_special": True, "parse_special": True}


async def test_vllm_renders_and_reports_its_window(start: Start) -> None:
    async with ScriptedUpstream() as server:
        engine = start(VllmServerEngine, server)
        server.on("/tokenize", json_reply({"tokens": [5, 6], "max_model_len": 77}))
        server.on("/detokenize", json_reply({"prompt": "Hi\n"}))
        assert await engine.render(CHAT) == TokenPrompt(tokens=[5, 6], tail="Hi\n")
        assert engine.context_window == 77
        assert server.requests[0].json == {**CHAT, "model": "m", "add_generation_prompt": True}
        assert server.requests[1].json == {"model": "m", "tokens": [5, 6]}


@pytest.mark.parametrize("kind", [LlamaServerEngine, VllmServerEngine])
async def test_short_texts_are_tokenized_once(kind: type[Any], start: Start) -> None:
    async with ScriptedUpstream() as server:
        engine = start(kind, server)
        server.on("/tokenize", json_reply({"tokens": [5]}))
        assert await engine.encode("") == []
        assert [await engine.encode(text) for text in ("a", "a", "b" * 300, "b" * 300)] == [[5]] * 4
        assert len(server.requests) == 3


@pytest.mark.parametrize("kind", [LlamaServerEngine, VllmServerEngine])
@pytest.mark.parametrize("known", [True, False])
async def test_whether_the_template_renders_tools_is_determined_once(
    kind: type[Any], known: bool, start: Start
) -> None:
    async with ScriptedUpstream() as server:
        engine = start(kind, server)
        server.on("/props", json_reply({}))
        server.on("/apply-template", json_reply({"prompt": "Hi"}))
        server.on("/detokenize", json_reply({"prompt": "Hi"}))
        server.on("/tokenize", json_reply({"tokens": [5]}), json_reply({"tokens": [5, 6] if known else [5]}))
        assert await engine.renders_tools() is known
        asked = len(server.requests)
        assert await engine.renders_tools() is known
        assert len(server.requests) == asked


@pytest.mark.parametrize(("status", "known"), [(400, False), (500, False), (503, None), (401, None)])
async def test_a_server_that_refuses_tools_does_not_render_them(status: int, known: bool | None, start: Start) -> None:
    async with ScriptedUpstream() as server:
        engine = start(VllmServerEngine, server)
        server.on("/detokenize", json_reply({"prompt": "Hi"}))
        server.on("/tokenize", json_reply({"tokens": [5]}), error_reply(status, "no"))
        if known is None:
            with pytest.raises(UpstreamRejected):
                await engine.renders_tools()
        else:
            assert await engine.renders_tools() is known


@pytest.mark.parametrize("kind", [LlamaServerEngine, VllmServerEngine])
@pytest.mark.parametrize("answer", [{}, {"tokens": "ab"}, {"tokens": ["a"]}, {"tokens": [5]}])
async def test_an_invalid_prompt_is_garbled(kind: type[Any], answer: Json, start: Start) -> None:
    async with ScriptedUpstream() as server:
        engine = start(kind, server)
        server.script(json_reply(answer))
        with pytest.raises(UpstreamGarbled):
            await engine.render(CHAT)


@pytest.mark.parametrize("kind", [LlamaServerEngine, VllmServerEngine])
async def test_a_text_without_tokens_is_refused(kind: type[Any], start: Start) -> None:
    parts = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": "data:,"}}]
    async with ScriptedUpstream() as server:
        with pytest.raises(Unrepresentable) as refused:
            await start(kind, server).render({"messages": [{"role": "user", "content": parts}]})
        assert "image_url" in refused.value.message
        assert server.requests == []


async def test_llama_gets_its_own_parameter_names(start: Start) -> None:
    async with ScriptedUpstream() as server:
        engine = start(LlamaServerEngine, server)
        server.on("/completion", sse_reply(llama("a", [5], 1), llama_end("eos", 1)))
        sampling = {"temperature": 0, "repetition_penalty": 1.1, "unknown": 1}
        found = await pieces(engine, stop=("x",), sampling=sampling)
        assert found == [EngineDelta("a", [5]), EngineDelta("", [], finish_reason="stop", cached_tokens=2)]
        [request] = server.requests
        sent_body = request.json
        assert (sent_body["prompt"], sent_body["n_predict"], sent_body["stop"]) == ([1, 2, 3], 9, ["x"])
        assert (sent_body["temperature"], sent_body["repeat_penalty"]) == (0, 1.1)
        assert "unknown" not in sent_body
        assert sent_body["stream"] is sent_body["return_tokens"] is sent_body["cache_prompt"] is True


LLAMA_ENDS: dict[str, tuple[bytes, EngineDelta]] = {
    "a limit": (llama_end("limit", 1, "b"), EngineDelta("b", [], finish_reason="length", cached_tokens=2)),
    "a stop text": (
        llama_end("word", 1, stopping_word="x"),
        EngineDelta("", [], finish_reason="stop", stop_string="x", cached_tokens=2),
    ),
    "the end of a turn": (llama_end("eos", 1), EngineDelta("", [], finish_reason="stop", cached_tokens=2)),
    "a limit within a character": (
        llama_end("limit", 3),
        EngineDelta("", [], finish_reason="length", cached_tokens=2, unlisted_tokens=2),
    ),
}


@pytest.mark.parametrize(("end", "piece"), LLAMA_ENDS.values(), ids=LLAMA_ENDS)
async def test_llama_reports_its_finish_reason(end: bytes, piece: EngineDelta, start: Start) -> None:
    async with ScriptedUpstream() as server:
        server.on("/completion", sse_reply(llama("a", [5], 1), end))
        assert await pieces(start(LlamaServerEngine, server)) == [EngineDelta("a", [5]), piece]


SPELT: dict[str, tuple[list[int], EngineDelta]] = {
    "the text leads back to them": ([7, 8, 9], EngineDelta("✓", [7, 8, 9])),
    "of a longer text the last ones": ([4, 7, 8, 9], EngineDelta("✓", [7, 8, 9])),
    "the text is spelt otherwise": ([4, 5], EngineDelta("✓", [4, 5], unlisted_tokens=1)),
    "the text is spelt longer": ([1, 2, 3, 4], EngineDelta("✓", [1, 2, 3, 4], unlisted_tokens=-1)),
}


@pytest.mark.parametrize(("spelt", "piece"), SPELT.values(), ids=SPELT)
async def test_tokens_that_llama_leaves_out_of_a_character_are_found(
    spelt: list[int], piece: EngineDelta, start: Start
) -> None:
    async with ScriptedUpstream() as server:
        server.on("/completion", sse_reply(llama("✓", [9], 3), llama_end("eos", 3)))
        server.on("/tokenize", json_reply({"tokens": spelt}))
        first, _ = await pieces(start(LlamaServerEngine, server))
        assert first == piece


LLAMA_GUIDES: dict[str, tuple[OutputConstraint, Json]] = {
    "a grammar": (OutputConstraint(grammar="root ::= x"), {"grammar": "root ::= x"}),
    "a choice": (OutputConstraint(choice=['a"\\', "b\n"]), {"grammar": 'root ::= "a\\"\\\\" | "b\\n"'}),
}


@pytest.mark.parametrize(("guide", "params"), LLAMA_GUIDES.values(), ids=LLAMA_GUIDES)
async def test_llama_gets_the_constraint_of_the_answer(guide: OutputConstraint, params: Json, start: Start) -> None:
    async with ScriptedUpstream() as server:
        server.on("/completion", sse_reply(llama_end("eos", 0)))
        await pieces(start(LlamaServerEngine, server), constraint=guide)
        assert {name: server.requests[0].json[name] for name in params} == params


@pytest.mark.parametrize("guide", [OutputConstraint(json_schema={"type": "array"}), OutputConstraint(json_object=True)])
async def test_llama_gets_a_schema_and_its_whitespace(guide: OutputConstraint, start: Start) -> None:
    async with ScriptedUpstream() as server:
        server.on("/completion", sse_reply(llama_end("eos", 1, "[]")))
        await pieces(start(LlamaServerEngine, server), constraint=guide)
        schema = server.requests[0].json["json_schema"]
        assert schema["type"] == ("array" if guide.json_schema else "object")
        assert schema["x-guidance"]["whitespace_flexible"] is False
        assert schema["x-guidance"]["lenient"] is True


async def test_llama_gets_the_empty_schema_unchanged(start: Start) -> None:
    async with ScriptedUpstream() as server:
        server.on("/completion", sse_reply(llama_end("eos", 1, "[]")))
        await pieces(start(LlamaServerEngine, server), constraint=OutputConstraint(json_schema={}))
        assert server.requests[0].json["json_schema"] == {}


LLAMA_GRAMMARS: dict[str, tuple[OutputConstraint, str]] = {
    "a Lark grammar": (OutputConstraint(lark='start: "a"'), 'start: "a"'),
    "an expression": (OutputConstraint(regex=r"a/b\/c"), r"start: /a\/b\/c/"),
    "an expression of two lines": (OutputConstraint(regex="a\n\\n"), r"start: /a\n\n/"),
}


@pytest.mark.parametrize(("guide", "lark"), LLAMA_GRAMMARS.values(), ids=LLAMA_GRAMMARS)
async def test_llama_gets_a_grammar_after_a_successful_probe(guide: OutputConstraint, lark: str, start: Start) -> None:
    async with ScriptedUpstream() as server:
        end = sse_reply(llama_end("eos", 1, "a"))
        server.on("/completion", json_reply({"content": "@%@%@%a"}), end)
        engine = start(LlamaServerEngine, server)
        for _ in range(2):
            await pieces(engine, constraint=guide)
        probe, *runs = [request.json for request in server.requests]
        assert f"inner: %lark {{\n{lark}\n}}" in probe["grammar"]
        assert [run["grammar"] for run in runs] == [f"%llguidance {{}}\n{lark}"] * 2


@pytest.mark.parametrize(
    "reply",
    [json_reply({"content": "Hello"}), error_reply(400, "failed to parse grammar")],
    ids=["it is ignored", "it is refused"],
)
async def test_a_llama_that_fails_the_grammar_probe_generates_nothing(reply: Script, start: Start) -> None:
    async with ScriptedUpstream() as server:
        server.on("/completion", reply)
        engine = start(LlamaServerEngine, server)
        for _ in range(2):
            with pytest.raises(UpstreamRejected, match="cannot hold text to this grammar"):
                await pieces(engine, constraint=OutputConstraint(lark="start: ((("))
        assert len(server.requests) == 1


async def test_a_busy_llama_is_probed_again(start: Start) -> None:
    async with ScriptedUpstream() as server:
        server.on("/completion", error_reply(429, "busy"))
        engine = start(LlamaServerEngine, server)
        for _ in range(2):
            with pytest.raises(UpstreamRateLimited):
                await pieces(engine, constraint=OutputConstraint(lark='start: "a"'))
        assert len(server.requests) == 2


async def test_a_llama_without_structural_tags_gets_the_schema_alone(start: Start) -> None:
    guide = OutputConstraint(json_schema={"type": "object"}, suffix="\n</tool_call>")
    async with ScriptedUpstream() as server:
        end = sse_reply(llama_end("eos", 1, "[]"))
        server.on("/completion", error_reply(400, "failed to parse grammar"), end)
        engine = start(LlamaServerEngine, server)
        for _ in range(2):
            await pieces(engine, constraint=guide)
        first, *others = [request.json for request in server.requests]
        assert first["grammar"].startswith("%llguidance")
        assert [("grammar" in other, "json_schema" in other) for other in others] == [(False, True)] * 2


async def test_a_llama_that_ignores_the_form_of_an_answer_fails(start: Start) -> None:
    async with ScriptedUpstream() as server:
        server.on("/completion", sse_reply(llama("Hello", [5], 1), llama_end("eos", 1)))
        with pytest.raises(UpstreamRejected, match="cannot constrain an answer to this schema"):
            await pieces(
                start(LlamaServerEngine, server), constraint=OutputConstraint(json_schema={"type": "nonsense"})
            )


async def test_other_refusals_of_llama_stay_refusals(start: Start) -> None:
    async with ScriptedUpstream() as server:
        server.on("/completion", error_reply(400, "no"))
        for guide in (None, OutputConstraint(json_schema={}, suffix="x")):
            with pytest.raises(UpstreamRejected):
                await pieces(start(LlamaServerEngine, server), constraint=guide)


async def test_probabilities_have_the_full_form(start: Start) -> None:
    given = {"token": "a", "logprob": -0.5, "bytes": [97], "id": 5}
    rivals = [{"id": number, "token": str(number), "logprob": -number, "bytes": [48]} for number in (1, 2, 3)]
    read = [{"token": each["token"], "logprob": each["logprob"], "bytes": each["bytes"]} for each in rivals]
    ours = {"token": "a", "logprob": -0.5, "bytes": [97]}
    async with ScriptedUpstream() as server:
        probabilities = [{**given, "top_logprobs": rivals}]
        stream = sse_reply(llama("a", [5], 1, completion_probabilities=probabilities), llama_end("eos", 1))
        server.on("/completion", stream)
        engine = start(LlamaServerEngine, server)
        for asked, told in ((0, 1), (2, 2)):
            first, last = await pieces(engine, top_logprobs=asked)
            assert first.logprobs == [{**ours, "top_logprobs": read[:asked]}]
            assert last.logprobs is None
            assert server.requests[-1].json["n_probs"] == told
        assert (await pieces(engine))[0].logprobs is None


async def test_vllm_is_prompted_with_tokens(start: Start) -> None:
    async with ScriptedUpstream() as server:
        stream = sse_reply(vllm("a", [5]), vllm("", [6], "stop", stop_reason="x"), vllm_end(cached=2), DONE)
        server.on("/completions", stream)
        sampling = {"temperature": 0, "unknown": 1, "model": "other"}
        found = await pieces(start(VllmServerEngine, server), stop=("x",), sampling=sampling)
        assert found == [
            EngineDelta("a", [5]),
            EngineDelta("", [6], finish_reason="stop", stop_string="x", cached_tokens=2),
        ]
        [request] = server.requests
        sent_body = request.json
        assert (sent_body["model"], sent_body["prompt"], sent_body["max_tokens"], sent_body["stop"]) == (
            "m",
            [1, 2, 3],
            9,
            ["x"],
        )
        assert sent_body["return_token_ids"] is True
        assert "unknown" not in sent_body
        assert "structured_outputs" not in sent_body


VLLM_ENDS: dict[str, tuple[Json, EngineDelta]] = {
    "a limit": ({"reason": "length"}, EngineDelta("b", [6], finish_reason="length")),
    "the end of a turn": ({"reason": "stop"}, EngineDelta("b", [6], finish_reason="stop")),
    "a token that stops": ({"reason": "stop", "stop_reason": 7}, EngineDelta("b", [6], finish_reason="stop")),
}


@pytest.mark.parametrize(("end", "piece"), VLLM_ENDS.values(), ids=VLLM_ENDS)
async def test_vllm_reports_its_finish_reason(end: Json, piece: EngineDelta, start: Start) -> None:
    async with ScriptedUpstream() as server:
        server.on("/completions", sse_reply(vllm("b", [6], **end), vllm_end(), DONE))
        assert await pieces(start(VllmServerEngine, server)) == [piece]


VLLM_GUIDES: dict[str, tuple[OutputConstraint, Json]] = {
    "a schema": (OutputConstraint(json_schema={"a": 1}), {"json": {"a": 1}}),
    "any JSON": (OutputConstraint(json_object=True), {"json_object": True}),
    "an expression": (OutputConstraint(regex="a"), {"regex": "a"}),
    "a grammar": (OutputConstraint(grammar="a"), {"grammar": "a"}),
    "a Lark grammar": (OutputConstraint(lark="a"), {"grammar": "a"}),
    "a choice": (OutputConstraint(choice=("a",)), {"choice": ["a"]}),
}


@pytest.mark.parametrize(("guide", "params"), VLLM_GUIDES.values(), ids=VLLM_GUIDES)
async def test_vllm_gets_the_constraint_of_the_answer(guide: OutputConstraint, params: Json, start: Start) -> None:
    async with ScriptedUpstream() as server:
        server.on("/completions", sse_reply(vllm("", [], "stop"), DONE))
        engine = start(VllmServerEngine, server)
        await pieces(engine, constraint=guide)
        assert server.requests[0].json["structured_outputs"] == params
        await pieces(engine, constraint=OutputConstraint(json_schema={"a": 1}, suffix="x"))
        assert server.requests[1].json["structured_outputs"].keys() == {"structural_tag"}
