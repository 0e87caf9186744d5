"""How many tokens an input is: as its upstream counts it, or not at all."""

import orjson

from gateway.planning.prepare_turn import prepare_turn, unseal_turn
from gateway.planning.resolver import Route
from providers.errors import ContextLengthExceeded
from translation.errors import Unrepresentable
from translation.representation.turn import Turn

_TEMPLATE_TOKENS = 1000
"""More than a chat template adds by itself: its own system prompt, how tools are to be called."""

_MEDIA_TYPES = (b'"input_image"', b'"input_file"', b'"input_audio"')


async def count_tokens(turn: Turn, route: Route, *, relayed: bool = False) -> int:
    """The upstream's own count. `relayed`: what asks for it would be relayed. Raises Unrepresentable where there is
    none, ProviderError."""
    if route.capabilities.counting == "none":
        raise Unrepresentable("the model's upstream cannot count tokens", param="model")
    # On a relay the upstream reads tools and items of every kind as they are.
    as_it_is = relayed and route.capabilities.counting == "responses"
    prepared = unseal_turn(turn, route) if as_it_is else prepare_turn(turn, route, "responses", [])[0]
    return await route.provider.count_tokens(prepared, route.profile, route.capabilities.counting)


async def exceeds_token_limit(limit: int, turn: Turn, route: Route, history_tokens: int | None) -> bool:
    """Whether a turn is over `limit` tokens. `known`: how many its history is, which is then all that is looked at."""
    if history_tokens is not None:
        return history_tokens > limit
    encoded = orjson.dumps([turn.instructions, *turn.items, *turn.tools])
    # No token is less than a byte of text; media can be any size.
    if len(encoded) + _TEMPLATE_TOKENS <= limit and not any(kind in encoded for kind in _MEDIA_TYPES):
        return False
    try:
        return await count_tokens(turn, route) > limit
    except ContextLengthExceeded:
        return True
