"""What lowering a turn gives: the upstream's request body and what did not fit in it."""

from collections.abc import Sequence
from typing import NamedTuple

from translation.json_types import Json
from translation.loss import Loss


class Lowered(NamedTuple):
    """`body` is ready to send. `losses` are only drops that do not change what the answer means; others are raised."""

    body: Json
    losses: Sequence[Loss]
