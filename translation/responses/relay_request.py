"""The few things a Responses body needs changed before a Responses upstream gets it as it is."""

from translation.json_types import Json
from translation.lowered import Lowered
from translation.profile import Profile

_OURS = ("thinking", "extensions")
"""Parameters of the gateway, which say nothing where a body is relayed."""

_NEVER_EMPTY = ("tools", "include")


def relay_body(body: Json, profile: Profile, *, model: str) -> Lowered:
    """`body` with the upstream's model name, and without empty `tools` and `include`. The body given is not changed."""
    relayed = {name: value for name, value in body.items() if name not in _OURS}
    for name in _NEVER_EMPTY:
        if not relayed.get(name):
            relayed.pop(name, None)
    relayed["model"] = model
    return Lowered(relayed, ())
