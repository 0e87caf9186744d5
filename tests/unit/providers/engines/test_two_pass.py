"""Thinking and answer in two passes, on an engine that writes scripted texts."""

from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from providers.engines.exchange import prepare_engine_exchange
from providers.errors import ContextLengthExceeded, UpstreamBroken, UpstreamTimeout
from tests.unit.providers.engines.engine_exchanges import ANSWER, BRIDGE, PROFILE, PROMPT, THOUGHT, WORDS, ask, limited
from tests.unit.support.fake_engine import END_TEXT, FakeEngine, message
from translation.errors import Unrepresentable
from translation.representation.events import Started, Usage
from translation.representation.profile import Profile
from translation.representation.turn import Turn


async def test_a_thought_and_its_answer_are_two_runs() -> None:
    engine = FakeEngine([f"{THOUGHT}</think>\n\nNo.", ANSWER], words=WORDS, cached=5)
    result = await ask(engine)
    assert result.events[0] == Started("m")
    assert result.items == [("reasoning", "I think."), ("message", ANSWER)]
    first, second = engine.runs
    assert first.prompt == PROMPT
    assert first.asked.stop == ("</think>", "</thinking>")
    assert first.asked.max_tokens == 100
    assert second.prompt == f"{PROMPT}{THOUGHT}</think>\n\n"
    assert second.asked.stop == ()
    thought, answer = len(THOUGHT) + 1, len(ANSWER) + 1
    prompt = len(PROMPT) - len("<think>") + 1
    assert result.usage == Usage(input=prompt, output=thought + answer, cache_read=5, reasoning=thought)
    assert result.end.reason == "stop"


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 40])
@pytest.mark.parametrize("words", [WORDS, (), ("</", "think", ">\n", ">\n\nY")], ids=["one token", "letters", "pieces"])
@pytest.mark.parametrize("tag", ["</think>", "</thinking>"])
async def test_the_second_pass_continues_from_the_tokens_of_the_first(tag: str, words: Any, size: int) -> None:
    engine = FakeEngine([f"{THOUGHT}{tag}\n\nYes. And more.", ANSWER], words=words, size=size)
    result = await ask(engine)
    assert result.reasoning == "I think."
    assert result.text.endswith(ANSWER)
    first, second = engine.runs
    assert second.tokens[: len(first.tokens)] == first.tokens
    assert second.prompt.startswith(f"{PROMPT}{THOUGHT}{tag}\n\n")
    assert second.prompt.count("</think") == 1
    made = len(await engine.encode(second.prompt.removeprefix(PROMPT)))
    assert result.usage.reasoning is not None
    assert made - 2 <= result.usage.reasoning <= made


async def test_text_of_the_last_token_after_the_tag_begins_the_answer() -> None:
    engine = FakeEngine([f"{THOUGHT}</think>\n\nYes, I do.", " I do."], words=("</think", ">\n\nYes,"))
    result = await ask(engine)
    assert result.items == [("reasoning", "I think."), ("message", "Yes, I do.")]
    assert engine.runs[1].prompt == f"{PROMPT}{THOUGHT}</think>\n\nYes,"
    assert result.usage.output == len(THOUGHT) + 2 + len(" I do.") + 1


@pytest.mark.parametrize("words", [WORDS, ()], ids=["one token", "letters"])
async def test_a_tag_that_the_engine_sends_is_removed(words: Any) -> None:
    engine = FakeEngine([f"{THOUGHT}</think>\n\nNo.", ANSWER], words=words, shows_stops=True)
    result = await ask(engine)
    assert result.items == [("reasoning", "I think."), ("message", ANSWER)]
    assert engine.runs[1].prompt == f"{PROMPT}{THOUGHT}</think>\n\n"
    assert result.usage.reasoning == len(await engine.encode(f"{THOUGHT}</think>"))


@pytest.mark.parametrize("names_end", [True, False])
async def test_an_answer_begun_in_the_first_pass_continues_in_the_second(names_end: bool) -> None:
    text = f"{THOUGHT}</think>\n\nYes."
    engine = FakeEngine([text, " And so."], size=100, heeds_stops=False, names_end=names_end)
    result = await ask(engine)
    assert result.items == [("reasoning", "I think."), ("message", "Yes. And so.")]
    assert engine.runs[1].prompt == f"{PROMPT}{text}"


@pytest.mark.parametrize("words", [WORDS, (), ("</think", ">\n\nY")], ids=["one token", "letters", "pieces"])
@pytest.mark.parametrize("size", [1, 4, 100])
async def test_an_engine_that_does_not_stop_at_the_tag_is_stopped(size: int, words: Any) -> None:
    text = f"{THOUGHT}</think>\n\nYes, I do."
    engine = FakeEngine([text, "And so."], words=words, size=size, heeds_stops=False)
    result = await ask(engine)
    assert result.reasoning == "I think."
    written = engine.runs[1].prompt.removeprefix(PROMPT).removesuffix(END_TEXT)
    assert text.startswith(written) or written == f"{THOUGHT}</think>\n\n"
    assert result.text.endswith("And so.")
    assert result.usage.reasoning == len(await engine.encode(f"{THOUGHT}</think>"))


@pytest.mark.parametrize("budget", range(1, 20))
@pytest.mark.parametrize("tag", ["</think>", "</thinking>"])
async def test_a_budget_may_end_anywhere_also_within_the_closing_tag(budget: int, tag: str) -> None:
    whole = f"I think{tag}"
    profile = Profile(two_pass="on", bridge=BRIDGE, think_tag="think" if tag == "</think>" else "thinking")
    engine = FakeEngine([whole, ANSWER])
    result = await ask(engine, profile, **limited(budget))
    assert result.reasoning == ("I think<" if budget == 8 else "I think"[:budget])
    assert result.text == ANSWER
    assert result.usage.reasoning == min(budget, len(whole))
    first, second = engine.runs
    written = second.prompt.removeprefix(first.prompt)
    begun = whole[:budget].partition("</")[1:]
    closed = f"\n{BRIDGE}\n{tag}\n\n" if not begun[0] and not whole[:budget].endswith("<") else None
    if closed is not None:
        assert written == f"{whole[:budget]}{closed}"
    elif begun[0]:
        assert written == f"{whole}\n\n" or written == f"{'I think</think>'}\n\n"
    assert written.count("</think") == 1


async def test_a_lone_bracket_at_the_end_of_a_budget_is_thought() -> None:
    engine = FakeEngine(["a <", ANSWER])
    result = await ask(engine, **limited(3))
    assert result.reasoning == "a <"
    assert engine.runs[1].prompt == f"{PROMPT}a <\n{BRIDGE}\n</think>\n\n"


@pytest.mark.parametrize(("bridge", "closing"), [(BRIDGE, f"\n{BRIDGE}\n"), (None, "\n"), ("", "\n")])
async def test_a_thought_that_is_cut_is_closed_with_the_bridge(bridge: str | None, closing: str) -> None:
    engine = FakeEngine(["hmm hmm", ANSWER])
    result = await ask(engine, Profile(two_pass="on", bridge=bridge), **limited(3))
    assert result.items == [("reasoning", "hmm"), ("message", ANSWER)]
    assert engine.runs[1].prompt == f"{PROMPT}hmm{closing}</think>\n\n"


@pytest.mark.parametrize("names_end", [True, False])
async def test_a_thought_that_ends_the_turn_is_closed_and_answered(names_end: bool) -> None:
    engine = FakeEngine(["I think.\n", ANSWER], names_end=names_end)
    result = await ask(engine)
    assert result.items == [("reasoning", "I think."), ("message", ANSWER)]
    assert engine.runs[1].prompt == f"{PROMPT}I think.\n{BRIDGE}\n</think>\n\n"
    assert result.usage.reasoning == len("I think.\n") + 1


async def test_a_thought_may_be_empty() -> None:
    engine = FakeEngine(["</think>", ANSWER], words=WORDS)
    result = await ask(engine)
    assert result.items == [("message", ANSWER)]
    assert result.usage.reasoning == 1
    engine = FakeEngine(["", ANSWER])
    assert (await ask(engine)).items == [("message", ANSWER)]


@pytest.mark.parametrize(
    ("opens", "prompt"),
    [("<think>\n", PROMPT), ("<think>", "user: Hi\n<think>"), ("", PROMPT), ("<thinking>\n", "user: Hi\n<thinking>\n")],
)
async def test_a_tag_that_the_template_opened_is_not_opened_again(opens: str, prompt: str) -> None:
    engine = FakeEngine(["hmm hmm", ANSWER], opens=opens)
    await ask(engine, **limited(3))
    tag = "thinking" if "thinking" in opens else "think"
    assert engine.runs[0].prompt == prompt
    assert engine.runs[1].prompt == f"{prompt}hmm\n{BRIDGE}\n</{tag}>\n\n"


@pytest.mark.parametrize("opens", ["", "<think>", "<think>\n"])
async def test_without_a_budget_there_is_an_empty_closed_thought(opens: str) -> None:
    engine = FakeEngine([ANSWER], opens=opens, cached=3)
    result = await ask(engine, Profile(two_pass="on", max_thinking_tokens=0))
    assert result.items == [("message", ANSWER)]
    assert [run.prompt for run in engine.runs] == ["user: Hi\n<think>\n\n</think>\n\n"]
    assert (result.usage.reasoning, result.usage.output, result.usage.cache_read) == (0, len(ANSWER) + 1, 3)


async def test_a_repeated_opening_tag_is_no_thought() -> None:
    engine = FakeEngine([f"<think>{THOUGHT}</think>", ANSWER])
    assert (await ask(engine)).reasoning.strip() == "I think."


async def test_the_limit_of_the_request_is_for_both_and_leaves_the_answer_its_share() -> None:
    engine = FakeEngine(["h" * 100, "a" * 100])
    result = await ask(engine, max_output_tokens=40)
    assert result.items == [("reasoning", "h" * 30), ("message", "a" * 10)]
    assert (result.usage.output, result.usage.reasoning, result.end.reason) == (40, 30, "length")


async def test_the_answer_gets_the_limit_that_thinking_left() -> None:
    engine = FakeEngine(["hm</think>", "a" * 100])
    assert (await ask(engine, max_output_tokens=40)).usage.output == 40
    assert engine.runs[1].asked.max_tokens == 40 - len("hm</think>")


async def test_a_limit_of_one_token_is_for_the_answer() -> None:
    engine = FakeEngine([ANSWER])
    result = await ask(engine, max_output_tokens=1)
    assert (result.text, result.end.reason, result.usage.reasoning) == ("Y", "length", 0)


async def test_the_limit_of_the_model_is_for_the_answer_alone() -> None:
    engine = FakeEngine(["h" * 30 + "</think>", "a" * 100])
    result = await ask(engine, Profile(two_pass="on", max_response_tokens=5))
    assert result.text == "aaaaa"
    assert result.end.reason == "length"


async def test_an_engine_that_writes_more_than_it_may_leaves_the_answer_no_room() -> None:
    engine = FakeEngine(["h" * 50 + "</think>"], heeds_limit=False)
    result = await ask(engine, max_output_tokens=20)
    assert result.items == [("reasoning", "h" * 50)]
    assert result.end.reason == "length"


async def test_a_prompt_that_fills_the_window_is_refused() -> None:
    for window in (1, len("user: Hi\n"), len(PROMPT), len(f"{PROMPT}\n{BRIDGE}\n</think>\n\n")):
        engine = FakeEngine([], context_window=window)
        with pytest.raises(ContextLengthExceeded, match=str(window)):
            await ask(engine)
        assert engine.runs == []


@pytest.mark.parametrize("two_pass", ["on", "off"])
async def test_a_limit_that_is_longer_than_the_window_is_refused(two_pass: Any) -> None:
    engine = FakeEngine([], context_window=200)
    with pytest.raises(Unrepresentable, match="the model's context is 200 tokens") as refused:
        await ask(engine, replace(PROFILE, two_pass=two_pass), max_output_tokens=201)
    assert refused.value.param == "max_output_tokens"
    assert engine.runs == []
    engine = FakeEngine([f"{THOUGHT}</think>", ANSWER], words=WORDS, context_window=200)
    assert (await ask(engine, max_output_tokens=200)).text == ANSWER


async def test_both_runs_stay_within_the_window() -> None:
    for window in range(len(f"{PROMPT}\n{BRIDGE}\n</think>\n\n") + 1, 200, 7):
        engine = FakeEngine(["h" * 100, "a" * 100], context_window=window)
        result = await ask(engine)
        for run in engine.runs:
            assert len(run.tokens) + run.asked.max_tokens <= window
        assert result.text
        assert (result.end.reason == "length") == (len(result.text) < 100)


@pytest.mark.parametrize("run", [0, 1], ids=["thinking", "answering"])
async def test_a_failure_of_the_engine_fails_the_turn(run: int) -> None:
    texts: list[Any] = [f"{THOUGHT}</think>", ANSWER]
    texts[run] = UpstreamTimeout("silence")
    engine = FakeEngine(texts, words=WORDS)
    with pytest.raises(UpstreamTimeout):
        await ask(engine)
    assert engine.runs[-1].closed


@pytest.mark.parametrize("run", [0, 1], ids=["thinking", "answering"])
async def test_closing_frees_the_engine_at_once(run: int) -> None:
    engine = FakeEngine([f"{'h' * 40}</think>", "a" * 500], words=WORDS)
    exchange = prepare_engine_exchange(engine, Turn(model="m", items=[message("Hi")]), PROFILE)
    async with aclosing(exchange.batches()) as batches:
        async for _ in batches:
            if len(engine.runs) > run:
                assert not engine.runs[run].closed
                break
    assert [each.closed for each in engine.runs] == [True] * (run + 1)


@pytest.mark.parametrize("run", [0, 1], ids=["thinking", "answering"])
async def test_an_engine_that_ends_without_output_is_broken(run: int) -> None:
    engine = FakeEngine([f"{THOUGHT}</think>", ANSWER], words=WORDS, endless=run)
    with pytest.raises(UpstreamBroken):
        await ask(engine)
