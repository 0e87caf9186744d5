"""Conversations as the text the model learns."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from scripts.tiny_model.conversations import ENDLESS, Conversations
from scripts.tiny_model.tools import Json

CHAT_TEMPLATE = Path(__file__).with_name("chat_template.jinja").read_text(encoding="utf-8").strip()


class Piece(NamedTuple):
    """Text after the prompt; the model is trained to write it, or only to read it."""

    text: str
    trained: bool


class Sample(NamedTuple):
    prompt: str
    pieces: list[Piece]
    answer: str


class Renderer:
    """The chat template, compiled as transformers compiles it."""

    def __init__(self) -> None:
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
        environment.filters["tojson"] = lambda value, **_: json.dumps(value, ensure_ascii=False)
        self._template: Any = environment.from_string(CHAT_TEMPLATE)

    def __call__(self, messages: Sequence[Json], tools: Sequence[Json], thinking: bool) -> str:
        """The prompt, up to where the model begins to write."""
        return str(
            self._template.render(
                messages=messages, tools=tools or None, add_generation_prompt=True, enable_thinking=thinking
            )
        )


def make_sample(conversations: Conversations, render: Renderer) -> Sample:
    """One text to learn: whole, with thinking switched off, or with a thought cut short and closed by somebody else."""
    rng = conversations.rng
    _, (messages, tools, thought, answer) = conversations.draw()
    thinks_forever = thought.endswith(ENDLESS)
    end = "" if answer.endswith(ENDLESS) else "<|im_end|>"
    thought, answer = thought.rstrip(ENDLESS), answer.rstrip(ENDLESS)
    mode = rng.random()
    if mode < 0.15:
        return Sample(render(messages, tools, False), [Piece(answer + end, True)], answer)
    prompt = render(messages, tools, True)
    if thinks_forever and mode < 0.7:
        return Sample(prompt, [Piece("<think>\n" + thought, True)], answer)
    if mode < 0.35 or thinks_forever:
        words = thought.split(" ")
        cut = " ".join(words[: rng.randint(0, len(words))])
        closing = rng.choice(["\n</think>\n\n", "\n</think>\n\n", "</think>\n\n", "\n</think>\n", "</think>"])
        return Sample(prompt, [Piece("<think>\n" + cut + closing, False), Piece(answer + end, True)], answer)
    return Sample(prompt, [Piece("<think>\n" + thought + "\n</think>\n\n" + answer + end, True)], answer)
