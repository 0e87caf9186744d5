"""The arguments of a past call, for upstreams that want them as an object and not as text."""

import orjson

from translation.json_types import Json
from translation.loss import Loss

RAW = "raw_arguments"
"""The key for what is no object: it is kept as it is, never made into one that says something else."""


def arguments_object(arguments: str, param: str, losses: list[Loss]) -> Json:
    """The object that these arguments are. None at all is an empty one; what cannot be read is wrapped, with a loss."""
    if not arguments.strip():
        return {}
    try:
        given = orjson.loads(arguments)
        orjson.dumps(given)  # which can nest less deep than what is read
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        given = None
    if isinstance(given, dict):
        return given
    losses.append(Loss(param, "wrapped"))
    return {RAW: arguments}
