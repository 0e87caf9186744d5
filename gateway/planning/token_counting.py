"""Counts the input tokens of a turn. Only the upstream counts; the gateway never estimates."""

import orjson

from dataplane.body_weight import run_for_items
from gateway.planning.admitted_request import AdmittedRequest
from gateway.planning.prepare_turn import prepare_turn, unseal_turn
from providers.errors import ContextLengthExceeded
from translation.errors import Unrepresentable
from translation.representation.turn import Turn
from translation.tools.tool_rewriting import has_accepted_names

_TEMPLATE_TOKENS = 1000
"""An upper bound of the tokens of a chat template: its system prompt and its instructions for calling tools."""

MEDIA_TYPES = (b'"input_image"', b'"input_file"', b'"input_audio"')


async def count_tokens(turn: Turn, request: AdmittedRequest, *, relayed: bool = False) -> int:
    """Returns the number of input tokens of a turn of the request, as the upstream counts them.

    `relayed` means that the request for a response would be relayed. Raises Unrepresentable
    if the upstream cannot count, InvalidRequest and StoreUnavailable as `prepare_turn` does, and ProviderError.
    """
    target = request.target
    if target.capabilities.counting == "none":
        raise Unrepresentable("the model's upstream cannot count tokens", param="model")
    # On a relay the upstream accepts tools and items of every kind unchanged.
    is_unchanged = (
        relayed and target.capabilities.counting == "responses" and has_accepted_names(turn, target.profile.tool_names)
    )
    if is_unchanged:
        prepared = await run_for_items(turn.items, unseal_turn, turn, target)
    else:
        prepared, _ = await run_for_items(turn.items, prepare_turn, turn, target, request.endpoint, [])
    return await target.provider.count_tokens(prepared, target.profile, target.capabilities.counting)


async def exceeds_token_limit(limit: int, turn: Turn, request: AdmittedRequest, history_tokens: int | None) -> bool:
    """Whether the input of a turn of the request is longer than `limit` tokens.

    If `history_tokens` is known, only that number is compared, and new items do not count. The upstream is asked only
    if the input could be longer at all. Raises what `count_tokens` raises, except ContextLengthExceeded.
    """
    if history_tokens is not None:
        return history_tokens > limit
    encoded = await run_for_items(turn.items, orjson.dumps, [turn.instructions, *turn.items, *turn.tools])
    # Every token is at least one byte of text. Media can be any number of tokens.
    if len(encoded) + _TEMPLATE_TOKENS <= limit and not any(kind in encoded for kind in MEDIA_TYPES):
        return False
    try:
        return await count_tokens(turn, request) > limit
    except ContextLengthExceeded:
        return True
