"""The provider for the demo model. Turns that the model was not trained for get a fixed answer instead of nonsense."""

from dataclasses import replace
from typing import Final

from providers.base import Capabilities, CountMethod, Exchange
from providers.config import ProviderConfig
from providers.demo.files import MODEL_FILE
from providers.demo.prompts import find_missing_result, is_held_to_form, select_trained_turn
from providers.demo.summary import asks_for_summary, quote_conversation, quote_last_message
from providers.engines.thinking_budget import resolve_thinking_budget
from providers.llamacpp.provider import LlamacppProvider
from providers.scripted.provider import ScriptedExchange
from providers.scripted.reply import ScriptedReply, cut_at_stop
from translation.lowering.unsupported import find_parameter_losses
from translation.representation.profile import Profile
from translation.representation.turn import Turn

BEYOND_DEMO: Final = (
    "I am the demo model. I know only a few prompts, such as: What is 3 + 4? Count to 12. "
    "Configure a real model for anything else; an agent needs one too."
)
"""The answer to every turn that the model was not trained for. The user's message is quoted after it."""

_MOST_THINKING_TOKENS: Final = 300
"""A larger budget is a limit that this model does not reach: it was trained for shorter thoughts, and after more tokens
it neither ends a thought nor answers."""

_ENGINE: Final = {"n_ctx": 8192, "cpuparams": {"n_threads": 1}}
"""One thread: with so small a model, several threads wait for each other longer than they compute."""


class DemoProvider(LlamacppProvider):
    """An embedded llama.cpp with the demo model. A turn that was not trained for gets `BEYOND_DEMO` and a quote of its
    message, and a request for a summary gets quotes of the conversation, both without the engine."""

    def __init__(self, name: str, config: ProviderConfig) -> None:
        super().__init__(name, config.model_copy(update={"model": str(MODEL_FILE), "engine": _ENGINE}))
        # A turn of any length gets an answer.
        window = config.capabilities.apply_to(Capabilities()).max_context_window
        self._capabilities = replace(self._capabilities, max_context_window=window)

    def prepare(self, turn: Turn, profile: Profile) -> Exchange:
        if asks_for_summary(turn.items):
            return _prepare_fixed_answer(turn, profile, quote_conversation(turn.items))
        if (missing := find_missing_result(turn)) is not None and not is_held_to_form(turn):
            return _prepare_fixed_answer(turn, profile, f"I have no answer. {missing}")
        trained_turn = select_trained_turn(turn)
        if trained_turn is None and not is_held_to_form(turn):
            quote = quote_last_message(turn.items)
            text = f"{BEYOND_DEMO} You wrote: {quote}" if quote else BEYOND_DEMO
            return _prepare_fixed_answer(turn, profile, text)
        turn = trained_turn or turn
        if resolve_thinking_budget(turn, profile) > _MOST_THINKING_TOKENS:
            turn = replace(turn, reasoning={**(turn.reasoning or {}), "max_tokens": _MOST_THINKING_TOKENS})
        return super().prepare(replace(turn, sampling={"temperature": 0, **turn.sampling}), profile)

    async def count_tokens(self, turn: Turn, profile: Profile, method: CountMethod) -> int:
        return await super().count_tokens(select_trained_turn(turn) or turn, profile, method)


def _prepare_fixed_answer(turn: Turn, profile: Profile, text: str) -> Exchange:
    losses = find_parameter_losses(turn)
    reply = ScriptedReply(reasoning="", call=None, text=cut_at_stop(text, turn))
    # No engine has read the prompt, so there is no cache that could have had it.
    return ScriptedExchange(turn, reply, losses, profile.reasoning_part, cached_tokens=None)
