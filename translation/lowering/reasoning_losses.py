"""Losses of the `reasoning` parameter, for upstreams that have no such parameter."""

from translation.representation.json_types import Json
from translation.representation.loss import Loss


def reasoning_losses(unsupported: Json) -> list[Loss]:
    """Returns the losses of the keys of `reasoning` that an upstream does not support.

    `summary: auto` is no loss, because the readable reasoning is sent to the client as a summary. Its length is that of
    the model's own text, so any other `summary` is reported as a change.
    """
    losses = [Loss(f"reasoning.{key}", "dropped") for key in unsupported if key != "summary"]
    if unsupported.get("summary") not in (None, "auto"):
        losses.append(Loss("reasoning.summary", "as auto"))
    return losses
