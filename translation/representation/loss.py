"""Losses: parts of a request that an upstream cannot honour and that are reported, not refused."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from translation.representation.json_types import Json

FINAL_TEXT: Final = "output.final_text"
"""The name of what a reply lacks if the upstream's final text is another form of the text that it streamed."""

THOUGHT_IMAGE: Final = "output.thought_image"
"""The name of what a reply lacks if the model tried out images while it thought. They are no answer."""

OTHER_CHOICE: Final = "output.choice"
"""The name of what a reply lacks if the upstream sent choices that were not requested."""

MISSING_CHOICES: Final = "n"
"""The name of what a reply lacks if the upstream sent fewer choices than were requested."""

MISSING_LOGPROBS: Final = "logprobs"
"""The name of what a chat completion lacks if the upstream sent no log probabilities although they were requested."""

MISSING_INCLUDED_LOGPROBS: Final = "include"
"""The same name for a response, by the parameter that requests them there."""

DROPPED_THINKING: Final = "input.reasoning"
"""The name of what a reply lacks if the upstream left out past thinking that was sent to it."""

LOSSES: Final = "losses"
"""The key of what a reply lacks, as entries of `x-gateway-loss`."""

_RELAYED_LOSSES: Final = (FINAL_TEXT, OTHER_CHOICE, MISSING_CHOICES, MISSING_LOGPROBS, MISSING_INCLUDED_LOGPROBS)
_EFFECTS: Final[Mapping[str, str]] = {FINAL_TEXT: "differs from the deltas", DROPPED_THINKING: "dropped"}
"""Name of what a reply lacks -> the effect, where it is more than that it is not reported."""


class Loss(NamedTuple):
    """One drop or conversion that does not change the meaning of the answer.

    `param` is the dotted path in the client's request. `effect` is one word or a short phrase: `dropped`, `merged`, ….
    """

    param: str
    effect: str

    def __str__(self) -> str:
        return f"{self.param}={self.effect}"


def build_reply_loss(name: str) -> Loss:
    """Returns the loss for something that a reply lacks, by its name: a parameter's result, or output of the model."""
    return Loss(name, _EFFECTS.get(name, "not reported"))


def render_reply_losses(names: Iterable[str]) -> list[str]:
    """Returns the entries of `x-gateway-loss` for what a reply lacks, for the end of a stream."""
    return [str(build_reply_loss(name)) for name in names]


def list_reply_losses(reply: Json) -> list[str]:
    """Returns what a relayed reply lacks, as far as the gateway wrote it in the reply or in one of its choices."""
    choices = reply.get("choices")
    holders = [reply, *(choices if isinstance(choices, list) else ())]
    listed = [holder[LOSSES] for holder in holders if isinstance(holder, dict) and LOSSES in holder]
    if not listed:
        return []
    entries = [entry for entries in listed if isinstance(entries, list) for entry in entries]
    return [name for name in _RELAYED_LOSSES if str(build_reply_loss(name)) in entries]


class UnknownKey(NamedTuple):
    """A key of a request that the schema of its API does not have. It is a loss unless the upstream is sent it.

    `holder` is the object that has it, and `path` its place in the request.
    """

    path: str
    key: str
    holder: Json
