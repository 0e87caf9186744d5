"""A provider for gpt-oss on a llama-server, with prompts and replies as token ids."""

from providers.base import Capabilities, CountMethod, Exchange
from providers.harmony.completion_request import build_completion_request
from providers.harmony.decode import HarmonyDecoder
from providers.harmony.encoding import load_encoding
from providers.harmony.token_decoder import HarmonyTokenDecoder
from providers.http.dialects import SSE
from providers.http.exchange import ExchangeRequest, HttpExchange, HttpProvider
from providers.http.upstream import Upstream
from providers.new_id import new_id
from translation.representation.profile import Profile
from translation.representation.turn import Turn


class HarmonyProvider(HttpProvider):
    """A provider for one llama-server with gpt-oss. The constructor raises ImportError if `openai-harmony` is not
    installed."""

    def __init__(self, upstream: Upstream, capabilities: Capabilities) -> None:
        super().__init__(upstream, capabilities, "chat")
        self._encoding = load_encoding()

    def prepare(self, turn: Turn, profile: Profile) -> Exchange:
        request = build_completion_request(turn, profile, self._encoding)
        token_decoder = HarmonyTokenDecoder(
            self._encoding, new_id, profile, request.prefill, request.stop, turn.trained_names
        )
        lowered = ExchangeRequest("/completion", request.body, request.losses, turn.stream)
        decoder = HarmonyDecoder(self._encoding, token_decoder, len(request.body["prompt"]))
        return HttpExchange(self._upstream, lowered, decoder, SSE)

    async def count_tokens(self, turn: Turn, profile: Profile, method: CountMethod) -> int:
        if method != "own":
            return await super().count_tokens(turn, profile, method)
        return len(build_completion_request(turn, profile, self._encoding).body["prompt"])
