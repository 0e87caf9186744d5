"""Losses of `reasoning` and `thinking`, for upstreams that lack what they request."""

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


def thinking_losses(thinking: bool | None, amount: str | int | None) -> list[Loss]:
    """Returns the loss of `thinking` for an upstream that has no switch for it.

    `amount` is the effort or the number of tokens that the upstream is sent for thinking, None without one. The effort
    `none` turns thinking off, and any other amount turns it on, so nothing is lost if `thinking` requests the same.
    """
    if thinking is None or (amount is not None and thinking == (amount != "none")):
        return []
    return [Loss("thinking", "dropped")]
