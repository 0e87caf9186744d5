"""How much of what it was taught the model can do."""

import random
from collections.abc import Collection
from typing import NamedTuple

import torch
from tokenizers import Tokenizer
from transformers import Qwen3ForCausalLM

from scripts.tiny_model.conversations import ENDLESS, TASKS, Conversations
from scripts.tiny_model.samples import Renderer
from scripts.tiny_model.tokenizer import END, PAD, token_ids

_CASES_PER_TASK = 12
_ENDLESS_TOKENS = 40
"""How far an answer without an end is followed."""


class Case(NamedTuple):
    task: str
    prompt: list[int]
    wanted: str
    endless: bool


class Score(NamedTuple):
    right: int
    total: int


def evaluate(network: Qwen3ForCausalLM, tokenizer: Tokenizer, rng: random.Random) -> dict[str, Score]:
    """Greedy answers to fresh conversations of each task, compared letter by letter with what is wanted."""
    ends = {tokenizer.token_to_id(END), tokenizer.token_to_id(PAD)}
    by_length: dict[int, list[Case]] = {}
    for case in draw_cases(tokenizer, rng):
        by_length.setdefault(len(case.prompt), []).append(case)
    right = dict.fromkeys(TASKS, 0)
    for cases in by_length.values():
        budget = max(_ENDLESS_TOKENS if c.endless else len(token_ids(tokenizer, c.wanted)) + 2 for c in cases)
        answers = decode_greedily(network, [case.prompt for case in cases], ends, budget)
        for case, (ids, ended) in zip(cases, answers, strict=True):
            text = tokenizer.decode(ids, skip_special_tokens=True)
            if case.endless:
                # What never ends is only begun.
                right[case.task] += not ended and case.wanted.split(ENDLESS)[0].startswith(text)
            else:
                right[case.task] += ended and text == case.wanted
    return {task: Score(right[task], _CASES_PER_TASK) for task in TASKS}


def draw_cases(tokenizer: Tokenizer, rng: random.Random) -> list[Case]:
    """Every fourth with thinking switched off."""
    render = Renderer()
    conversations = Conversations(rng)
    cases: list[Case] = []
    for task in TASKS:
        for number in range(_CASES_PER_TASK):
            _, (messages, tools, thought, answer) = conversations.draw(task)
            thinking = number % 4 != 3
            wanted = f"<think>\n{thought}\n</think>\n\n{answer}" if thinking else answer
            prompt = token_ids(tokenizer, render(messages, tools, thinking))
            cases.append(Case(task, prompt, wanted, ENDLESS in wanted))
    return cases


def decode_greedily(
    network: Qwen3ForCausalLM, prompts: list[list[int]], ends: Collection[int], budget: int
) -> list[tuple[list[int], bool]]:
    """What follows each of the equally long prompts, and whether it ended by itself."""
    ids = torch.tensor(prompts)
    answers: list[list[int]] = [[] for _ in prompts]
    ended = [False] * len(prompts)
    past = None
    with torch.no_grad():
        for _ in range(budget):
            step = network(input_ids=ids, past_key_values=past, use_cache=True)
            past = step.past_key_values
            best = step.logits[:, -1].argmax(-1)
            for row, token in enumerate(best.tolist()):
                if ended[row]:
                    continue
                if token in ends:
                    ended[row] = True
                else:
                    answers[row].append(token)
            if all(ended):
                break
            ids = best[:, None]
    return list(zip(answers, ended, strict=True))
