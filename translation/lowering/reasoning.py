"""Renders past reasoning as text, for upstreams that read it, and finds losses of `reasoning` and `thinking`."""

from typing import Final

from translation.representation.items import new_reasoning_text
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.turn import Turn


def render_past_reasoning(item: Item) -> str:
    """Returns the text of a reasoning item, or else of its summary.

    It is empty if the item has neither in plain text.
    """
    texts = [part["text"] for part in item.get("content") or () if part.get("type") == "reasoning_text"]
    return "".join(texts) or "\n\n".join(part["text"] for part in item.get("summary") or ())


def with_readable_content(item: Item) -> Item:
    """Returns a reasoning item whose content has the text of its summary, if it has no content of its own.

    Servers of open models read the content only, and it may have become a summary on its way to the client. An item
    with `encrypted_content` is returned as the same object: its upstream reads that instead of the content.
    """
    if item.get("content") or item.get("encrypted_content") or not (text := render_past_reasoning(item)):
        return item
    return {**item, "content": [{**new_reasoning_text(), "text": text}]}


def is_signature_only(item: Item) -> bool:
    """Whether a reasoning item holds no reasoning, only signatures of other output. Dropping such an item loses
    nothing.

    All details of such an item have `"thought": false`.
    """
    details = item.get("details")
    if not isinstance(details, list) or not details or item.get("encrypted_content") or render_past_reasoning(item):
        return False
    return all(isinstance(detail, dict) and detail.get("thought") is False for detail in details)


_BUDGET_EFFORTS: Final = ((2048, "low"), (8192, "medium"))
"""(largest number of tokens, effort) of budgets for thinking. A larger budget is a high effort."""


def with_effort_for_budget(reasoning: Json, thinking: bool | None, losses: list[Loss]) -> Json:
    """Returns `reasoning` for an upstream that has efforts and neither budgets nor a switch for thinking.

    Requested thinking with a budget and without an effort gets one, which is a loss of the budget.
    """
    budget = reasoning.get("max_tokens")
    if not thinking or budget is None or reasoning.get("effort") is not None:
        return reasoning
    effort = next((effort for limit, effort in _BUDGET_EFFORTS if budget <= limit), "high")
    losses.append(Loss("reasoning.max_tokens", f"as effort {effort}"))
    return {**reasoning, "effort": effort, "max_tokens": None}


def find_reasoning_losses(unsupported: Json) -> list[Loss]:
    """Returns the losses of the keys of `reasoning` that an upstream does not support.

    `summary: auto` is no loss, because the readable reasoning is sent to the client as a summary. The model decides how
    long it is, so any other `summary` is reported as a change.
    """
    losses = [Loss(f"reasoning.{key}", "dropped") for key in unsupported if key != "summary"]
    if unsupported.get("summary") not in (None, "auto"):
        losses.append(Loss("reasoning.summary", "as auto"))
    return losses


def find_thinking_losses(thinking: bool | None, amount: str | int | None) -> list[Loss]:
    """Returns the loss of `thinking` for an upstream that has no switch for it.

    `amount` is the effort or the number of tokens that the upstream is sent for thinking, None without one. The effort
    `none` turns thinking off, and any other amount turns it on, so nothing is lost if `thinking` requests the same.
    """
    if thinking is None or (amount is not None and thinking == (amount != "none")):
        return []
    return [Loss("thinking", "dropped")]


def may_think(turn: Turn) -> bool:
    """Whether the turn asks the model to think, or leaves it to the model."""
    if turn.thinking is False or (turn.reasoning or {}).get("effort") == "none":
        return False
    template_arguments = turn.extra.get("chat_template_kwargs")
    return (
        turn.thinking is True
        or not isinstance(template_arguments, dict)
        or template_arguments.get("enable_thinking") is not False
    )
