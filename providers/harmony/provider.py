"""A provider for gpt-oss behind a llama-server that is asked in tokens."""

from providers.base import Capabilities, Counting, Exchange
from providers.harmony.completion_request import asked_of
from providers.harmony.decode import HarmonyDecoder
from providers.harmony.encoding import encoding
from providers.harmony.token_decoder import HarmonyReply
from providers.http.dialects import SSE
from providers.http.exchange import WireExchange, WireProvider
from providers.http.upstream import Upstream
from providers.new_id import new_id
from translation.representation.profile import Profile
from translation.representation.turn import Turn


class HarmonyProvider(WireProvider):
    """Raises ImportError at once where the library of the encoding is not installed."""

    def __init__(self, upstream: Upstream, capabilities: Capabilities) -> None:
        super().__init__(upstream, capabilities, "chat")
        self._encoding = encoding()

    def prepare(self, turn: Turn, profile: Profile) -> Exchange:
        asked = asked_of(turn, profile, self._encoding)
        reply = HarmonyReply(self._encoding, new_id, profile, asked.primed, asked.stop)
        return WireExchange(
            self._upstream,
            "/completion",
            asked.body,
            asked.losses,
            HarmonyDecoder(self._encoding, reply, len(asked.body["prompt"])),
            stream=turn.stream,
            framing=SSE,
        )

    async def count(self, turn: Turn, profile: Profile, way: Counting) -> int:
        if way != "own":
            return await super().count(turn, profile, way)
        return len(asked_of(turn, profile, self._encoding).body["prompt"])
