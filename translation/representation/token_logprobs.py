"""Finds the log probabilities of the tokens that a piece of a reply's text was made of."""

from collections import deque
from collections.abc import Iterable

from translation.representation.json_types import Json


class TokenLogprobs:
    """The log probabilities of generated tokens whose text is not written yet, in order.

    Text and tokens of a chunk need not belong together. Decoders hold back text that could become a tag, and drop tags,
    calls, and line breaks around reasoning. Engines report the token that ends a turn, which is not part of the text,
    and with stop strings they send text later than its tokens. So tokens are found by the bytes of the written text.
    """

    def __init__(self) -> None:
        self._bytes = bytearray()
        """The bytes of the tokens in the queue."""
        self._tokens: deque[tuple[Json | None, int]] = deque()
        """(log probability, number of bytes). None: the rest of a token that an earlier text began with."""

    def add(self, logprobs: Iterable[Json]) -> None:
        """Adds tokens in the full Responses form."""
        for entry in logprobs:
            encoded = _bytes_of(entry)
            self._bytes += encoded
            self._tokens.append((entry, len(encoded)))

    def clear(self) -> None:
        """Drops the tokens, because the written text does not come from them."""
        self._bytes.clear()
        self._tokens.clear()

    def take(self, text: str) -> list[Json] | None:
        """Removes the tokens of `text` and those before it. Returns the tokens of `text`; None without any.

        A token that two texts share is returned with the first. All tokens are returned if the text is not found in
        them: some upstreams report tokens in a notation of their own.
        """
        if not self._tokens:
            return None
        encoded = text.encode(errors="surrogatepass")
        start = self._bytes.find(encoded)
        if start < 0:
            entries = [entry for entry, _ in self._tokens if entry is not None]
            self.clear()
            return entries or None
        end = start + len(encoded)
        entries = []
        position = 0
        while self._tokens and position < end:
            entry, length = self._tokens.popleft()
            # Some engines report no bytes for tokens that are parts of a character: they belong to the text after them.
            if entry is not None and (position + length > start or (not length and position == start)):
                entries.append(entry)
            position += length
        if position > end:
            self._tokens.appendleft((None, position - end))
        del self._bytes[:end]
        return entries or None


def _bytes_of(entry: Json) -> bytes:
    try:
        return bytes(entry["bytes"])
    except (TypeError, ValueError):  # an upstream may list anything
        return str(entry["token"]).encode(errors="surrogatepass")
