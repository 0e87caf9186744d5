"""Remembers which upstream stores which response, for servers without a store of their own: a response that continues
one of them can only be made by the upstream that has it."""

from collections import OrderedDict
from typing import Final

from gateway.upstreams.health import UpstreamName

_MAX_RESPONSES: Final = 10_000
"""The most responses of one name that are remembered, the newest. Any upstream may be asked to continue an older one,
and those that do not have it say so."""

_MAX_ID_CHARS: Final = 256
"""Longer ids are not remembered. Upstreams choose them."""


class ResponseMakers:
    """The upstreams of the latest responses of one name, in one process."""

    def __init__(self) -> None:
        self._makers: OrderedDict[tuple[str, str], UpstreamName] = OrderedDict()

    def note_maker(self, owner: str, response_id: object, maker: UpstreamName) -> None:
        """Remembers which upstream made a response. `response_id` is what the upstream sent as its id."""
        if not isinstance(response_id, str) or len(response_id) > _MAX_ID_CHARS:
            return
        self._makers[owner, response_id] = maker
        if len(self._makers) > _MAX_RESPONSES:
            self._makers.popitem(last=False)

    def find_maker(self, owner: str, response_id: str) -> UpstreamName | None:
        """Returns the upstream that made a response; None if that is not known."""
        return self._makers.get((owner, response_id))
