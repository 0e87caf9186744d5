"""vLLM's engine as an engine of the gateway, with a stand-in for vLLM; tests/engine/ uses the real one."""

import base64
import json
from types import SimpleNamespace
from typing import Any

import pytest

from providers.egress import EgressClient, FetchResult
from providers.engines.base import EngineDelta, GenerationRequest, OutputConstraint, TokenPrompt
from providers.errors import (
    ContextLengthExceeded,
    EngineUnavailable,
    ProviderError,
    UpstreamBroken,
    UpstreamOverloaded,
    UpstreamRateLimited,
    UpstreamRejected,
    UpstreamTimeout,
)
from providers.vllm_inprocess import images
from providers.vllm_inprocess.engine import VllmEngine
from tests.unit.support.vllm_fakes import (
    AsyncLLM,
    EngineDeadError,
    GracefulHTTPError,
    Tokenizer,
    VLLMClientError,
    library,
    text_output,
)
from translation.errors import InvalidRequest

PROMPT = TokenPrompt(tokens=[5, 6], tail="ab")
EGRESS = EgressClient()
DEADLINE_S = 60.0
PIXEL = "data:image/png;base64,aGk="


def engine_of(llm: AsyncLLM, **options: Any) -> VllmEngine:
    return VllmEngine(library(), llm, EgressClient(), **{"silence_s": DEADLINE_S, **options})


async def pieces_of(
    llm: AsyncLLM, asked: GenerationRequest | None = None, prompt: TokenPrompt = PROMPT
) -> list[EngineDelta]:
    return [piece async for piece in engine_of(llm).generate(prompt, asked or GenerationRequest(max_tokens=8))]


async def params_of(**params: Any) -> Any:
    llm = AsyncLLM()
    await pieces_of(llm, GenerationRequest(**{"max_tokens": 8, **params}))
    return llm.asked[0].params


async def test_output_arrives_in_pieces_and_the_last_has_the_finish_reason() -> None:
    llm = AsyncLLM(
        text_output("Hi", cached=1), text_output(" you"), text_output("", "stop", tokens=[2], stop_reason="</think>")
    )
    assert await pieces_of(llm) == [
        EngineDelta("Hi", [72, 105], cached_tokens=1),
        EngineDelta(" you", [32, 121, 111, 117]),
        EngineDelta("", [2], finish_reason="stop", stop_string="</think>"),
    ]


async def test_a_stop_by_a_token_is_no_stop_string() -> None:
    (last,) = await pieces_of(AsyncLLM(text_output("x", "stop", stop_reason=99)))
    assert (last.finish_reason, last.stop_string) == ("stop", None)


async def test_an_answer_that_the_engine_aborts_is_truncated() -> None:
    with pytest.raises(UpstreamBroken, match="abort"):
        await pieces_of(AsyncLLM(text_output("x"), text_output("", "abort")))


async def test_an_engine_that_falls_silent_is_abandoned() -> None:
    llm = AsyncLLM(text_output("x"))
    llm.hangs = True
    pieces = engine_of(llm, silence_s=0.05).generate(PROMPT, GenerationRequest(max_tokens=8))
    assert (await anext(pieces)).text == "x"
    with pytest.raises(UpstreamTimeout, match=r"nothing for 0\.05 s"):
        await anext(pieces)
    assert llm.unfinished == 0


async def test_every_run_has_a_name_of_its_own() -> None:
    llm = AsyncLLM()
    await pieces_of(llm)
    await pieces_of(llm)
    assert len({asked.request_id for asked in llm.asked}) == 2


async def test_a_prompt_that_leaves_no_room_is_refused_before_the_engine_sees_it() -> None:
    llm = AsyncLLM()
    with pytest.raises(ContextLengthExceeded, match="64 tokens"):
        await pieces_of(llm, prompt=TokenPrompt(tokens=[1] * 64, tail=""))
    assert not llm.asked


async def test_an_answer_is_limited_to_the_free_context() -> None:
    assert (await params_of(max_tokens=1000)).max_tokens == 62


async def test_leaving_ends_the_work_of_the_engine() -> None:
    llm = AsyncLLM(text_output("a"), text_output("b"), text_output("", "stop"))
    pieces = engine_of(llm).generate(PROMPT, GenerationRequest(max_tokens=8))
    await anext(pieces)
    assert llm.unfinished == 1
    await pieces.aclose()
    assert llm.unfinished == 0


@pytest.mark.parametrize(
    ("failure", "meaning", "text"),
    [
        (VLLMClientError("bad schema", "structured_outputs"), UpstreamRejected, "bad schema"),
        (GracefulHTTPError("busy", 503), UpstreamOverloaded, "busy"),
        (GracefulHTTPError("slow down", 429), UpstreamRateLimited, "slow down"),
        (GracefulHTTPError("conflict", 409), UpstreamRejected, "conflict"),
        (EngineDeadError(), EngineUnavailable, "the engine died"),
        (RuntimeError("out of memory"), UpstreamBroken, "RuntimeError: out of memory"),
    ],
)
async def test_failures_have_codes_by_meaning(failure: Exception, meaning: type[ProviderError], text: str) -> None:
    with pytest.raises(meaning, match=text) as raised:
        await pieces_of(AsyncLLM(text_output("a"), failure))
    assert type(raised.value) is meaning
    assert "everything that was sent" not in str(raised.value)


async def test_a_refusal_names_its_parameter() -> None:
    with pytest.raises(UpstreamRejected) as raised:
        await params_of(sampling={"temperature": -1})
    assert (raised.value.status, raised.value.param) == (400, "temperature")


async def test_sampling_parameters_of_the_client_override_those_of_the_model() -> None:
    llm = AsyncLLM()
    llm.model_config.sampling = {"temperature": 0.6, "top_k": 20, "max_tokens": 7}
    sampling = {"temperature": 0, "seed": 3, "min_p": None, "user": "ann", "logit_bias": {"5": 200, "6": -1}}
    await pieces_of(llm, GenerationRequest(max_tokens=8, sampling=sampling, stop=["</think>"]))
    params = vars(llm.asked[0].params)
    assert (params["temperature"], params["top_k"], params["seed"], params["max_tokens"]) == (0, 20, 3, 8)
    assert params["logit_bias"] == {5: 100.0, 6: -1.0}
    assert params["stop"] == ["</think>"]
    assert params.keys().isdisjoint({"user", "min_p"})


async def test_a_bias_that_names_no_token_is_refused() -> None:
    with pytest.raises(UpstreamRejected):
        await params_of(sampling={"logit_bias": {"word": 1}})


async def test_priority_and_cache_salt_are_passed_to_the_engine() -> None:
    llm = AsyncLLM()
    await pieces_of(llm, GenerationRequest(max_tokens=8, sampling={"priority": 3, "cache_salt": "ann"}))
    assert (llm.asked[0].priority, llm.asked[0].input["cache_salt"]) == (3, "ann")


@pytest.mark.parametrize(
    ("guide", "name", "value"),
    [
        (OutputConstraint(json_schema={"multipleOf": 2}), "json", {"multipleOf": 2}),
        (OutputConstraint(json_schema={"type": "nonsense"}), "json", {"type": "nonsense"}),
        (OutputConstraint(regex="[ab]"), "regex", "[ab]"),
        (OutputConstraint(grammar="root ::= 'a'"), "grammar", "root ::= 'a'"),
        (OutputConstraint(choice=("yes", "no")), "choice", ["yes", "no"]),
    ],
)
async def test_a_guide_binds_from_the_first_token(guide: OutputConstraint, name: str, value: Any) -> None:
    llm = AsyncLLM()
    await pieces_of(llm, GenerationRequest(max_tokens=8, constraint=guide))
    given = {key: each for key, each in vars(llm.asked[0].params.structured_outputs).items() if each is not None}
    assert given == {name: value}
    assert llm.asked[0].reasoning_ended is True


def tag_of(llm: AsyncLLM) -> Any:
    tag = json.loads(llm.asked[0].params.structured_outputs.structural_tag)
    assert tag["type"] == "structural_tag"
    return tag["format"]


@pytest.mark.parametrize(
    ("guide", "schema"),
    [
        (OutputConstraint(json_schema={"type": "array"}), {"type": "array"}),
        (OutputConstraint(json_object=True), {"type": "object"}),
    ],
)
async def test_json_has_only_the_whitespace_of_its_indentation(guide: OutputConstraint, schema: Any) -> None:
    llm = AsyncLLM()
    await pieces_of(llm, GenerationRequest(max_tokens=8, constraint=guide))
    assert tag_of(llm) == {"type": "json_schema", "json_schema": schema, "max_whitespace_cnt": 32}


async def test_text_after_the_json_of_a_call_is_part_of_its_form() -> None:
    llm = AsyncLLM()
    await pieces_of(
        llm, GenerationRequest(max_tokens=8, constraint=OutputConstraint(json_schema={}, suffix="\n</tool_call>"))
    )
    first, second = tag_of(llm)["elements"]
    assert (first["type"], second) == ("json_schema", {"type": "const_string", "value": "\n</tool_call>"})


async def test_an_engine_with_another_guide_gets_the_schema_alone() -> None:
    llm = AsyncLLM()
    llm.vllm_config.structured_outputs_config.backend = "guidance"
    await pieces_of(
        llm, GenerationRequest(max_tokens=8, constraint=OutputConstraint(json_schema={"type": "array"}, suffix="x"))
    )
    assert llm.asked[0].params.structured_outputs.json == {"type": "array"}


async def test_without_a_guide_thinking_is_not_passed_to_the_engine() -> None:
    llm = AsyncLLM()
    await pieces_of(llm)
    assert (llm.asked[0].reasoning_ended, llm.asked[0].params.structured_outputs) == (None, None)


async def test_probabilities_are_complete_and_in_descending_order() -> None:
    candidates = {
        7: SimpleNamespace(logprob=-2.0, decoded_token="é"),
        8: SimpleNamespace(logprob=-0.1, decoded_token="b"),
        9: SimpleNamespace(logprob=float("-inf"), decoded_token=None),
    }
    llm = AsyncLLM(text_output("é", "length", tokens=[7], logprobs=[candidates]))
    (piece,) = await pieces_of(llm, GenerationRequest(max_tokens=1, top_logprobs=3))
    sampled = {"token": "é", "logprob": -2.0, "bytes": [195, 169]}
    likeliest = {"token": "b", "logprob": -0.1, "bytes": [98]}
    never = {"token": "", "logprob": -9999.0, "bytes": []}
    assert piece.logprobs == [{**sampled, "top_logprobs": [likeliest, sampled, never]}]


async def test_special_tokens_are_left_out_except_tags_of_the_model() -> None:
    class Marked(Tokenizer):
        all_special_tokens = ("<|im_end|>", "<think>")

    plain, marked = AsyncLLM(), AsyncLLM(tokenizer=Marked())
    await pieces_of(plain)
    await pieces_of(marked)
    assert (plain.asked[0].params.skip_special_tokens, marked.asked[0].params.skip_special_tokens) == (True, False)


async def test_tags_are_tokens_of_their_own() -> None:
    engine = engine_of(AsyncLLM())
    assert await engine.encode("</think>") == [2]
    assert await engine.decode([104, 105, 2]) == "hi</think>"


async def test_a_chat_is_rendered_with_its_tools_like_by_the_server() -> None:
    llm = AsyncLLM()
    tool = {"type": "function", "function": {"parameters": {}, "name": "add", "strict": None}}
    chat = {
        "messages": [{"role": "user", "content": "What is 3 + 4?"}],
        "tools": [tool],
        "chat_template_kwargs": {"enable_thinking": False},
    }
    prompt = await engine_of(llm).render(chat)
    assert prompt.tail.endswith("What is 3 + 4?\n")
    assert prompt.media is None
    ((messages, params),) = llm.renderer.asked
    assert messages == chat["messages"]
    assert params.chat_template_content_format == "string"
    assert params.chat_template_kwargs["enable_thinking"] is False
    assert params.chat_template_kwargs["add_generation_prompt"] is True
    (said_tool,) = params.chat_template_kwargs["tools"]
    assert list(said_tool["function"].items()) == [("name", "add"), ("description", None), ("parameters", {})]


@pytest.mark.parametrize("says_tools", [True, False])
async def test_whether_the_template_renders_tools_is_determined_once(says_tools: bool) -> None:
    llm = AsyncLLM()
    llm.renderer.says_tools = says_tools
    engine = engine_of(llm)
    assert await engine.renders_tools() is says_tools
    assert await engine.renders_tools() is says_tools
    assert len(llm.renderer.asked) == 1


async def test_a_template_that_fails_on_tools_does_not_render_them() -> None:
    llm = AsyncLLM()
    llm.renderer.failure = VLLMClientError("tools are not supported")
    assert await engine_of(llm).renders_tools() is False


@pytest.mark.parametrize("failure", [VLLMClientError("no such role"), ValueError("no such role")])
async def test_a_chat_that_the_template_cannot_render_is_refused(failure: Exception) -> None:
    llm = AsyncLLM()
    llm.renderer.failure = failure
    with pytest.raises(UpstreamRejected, match="no such role"):
        await engine_of(llm).render({"messages": [{"role": "user", "content": "."}]})


def with_image(url: str) -> dict[str, Any]:
    parts = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": url}}]
    return {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": parts}]}


async def test_an_image_is_passed_to_every_pass_of_a_turn() -> None:
    llm = AsyncLLM()
    llm.model_config.is_multimodal_model = True
    llm.renderer.mixed = {"type": "multimodal", "mm_kwargs": "pixels", "prompt_token_ids": [1, 2]}
    engine = engine_of(llm)
    prompt = await engine.render(with_image(PIXEL))
    assert llm.renderer.asked[0][1].chat_template_content_format == "auto"
    async for _ in engine.generate(prompt.with_tokens([9], "x"), GenerationRequest(max_tokens=8)):
        pass
    asked = llm.asked[0].input
    assert (asked["type"], asked["mm_kwargs"], asked["prompt_token_ids"]) == ("multimodal", "pixels", [1, 2, 9])


async def test_an_image_is_fetched_through_the_gateways_egress_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fetch(url: str, **_: Any) -> FetchResult:
        assert url == "https://example.com/cat.png"
        return FetchResult("image/png", b"cat")

    monkeypatch.setattr(EGRESS, "fetch", fetch)
    chat, found = await images.inline_images(with_image("https://example.com/cat.png"), EGRESS, reads_images=True)
    assert found
    expected = "data:image/png;base64," + base64.b64encode(b"cat").decode()
    assert chat["messages"][1]["content"][1]["image_url"]["url"] == expected


async def test_images_fetched_for_one_request_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[int] = []

    async def fetch(url: str, *, max_bytes: int, **_: Any) -> FetchResult:
        fetched.append(max_bytes)
        return FetchResult("image/png", b"x" * min(max_bytes, 40))

    monkeypatch.setattr(EGRESS, "fetch", fetch)
    monkeypatch.setattr(EGRESS, "max_bytes", 60)
    urls = [with_image(f"https://example.com/{number}.png")["messages"][1] for number in range(6)]
    with pytest.raises(InvalidRequest, match="too large, or take too long to fetch"):
        await images.inline_images({"messages": urls}, EGRESS, reads_images=True)
    assert fetched == [60, 60, 60, 60, 20]


async def test_fetched_content_must_be_an_image(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fetch(url: str, **_: Any) -> FetchResult:
        return FetchResult("text/html", b"<html>")

    monkeypatch.setattr(EGRESS, "fetch", fetch)
    with pytest.raises(InvalidRequest, match="text/html"):
        await images.inline_images(with_image("https://example.com/"), EGRESS, reads_images=True)


@pytest.mark.parametrize("url", ["data:text/plain;base64,aGk=", "data:image/png,hi", "data:,"])
async def test_a_data_url_must_be_one_of_an_image(url: str) -> None:
    with pytest.raises(InvalidRequest, match="data:image"):
        await images.inline_images(with_image(url), EGRESS, reads_images=True)


async def test_a_model_that_cannot_see_refuses_images() -> None:
    with pytest.raises(InvalidRequest, match="image_url"):
        await engine_of(AsyncLLM()).render(with_image(PIXEL))


async def test_nothing_but_text_and_images_reaches_the_renderer_which_would_fetch_it() -> None:
    chat = {"messages": [{"role": "user", "content": [{"type": "video_url", "video_url": {"url": "file:///etc"}}]}]}
    with pytest.raises(InvalidRequest, match="video_url"):
        await images.inline_images(chat, EGRESS, reads_images=True)
