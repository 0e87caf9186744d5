"""gpt-oss's own encoding, and texts with its control tokens, for tests."""

from providers.harmony.completion_request import build_completion_request
from providers.harmony.encoding import Encoding, load_encoding
from providers.harmony.token_decoder import HarmonyTokenDecoder
from tests.unit.support.translator_drivers import counting_ids
from translation.representation.events import Event
from translation.representation.profile import DEFAULT_PROFILE, Profile
from translation.representation.turn import LoweredRequest, Turn


def real() -> Encoding:
    return load_encoding()


def marked(text: str) -> list[int]:
    """The tokens of text in which control tokens are spelt out."""
    tokens: list[int] = real().library.encode(text, allowed_special="all")
    return tokens


def lower_to_harmony(turn: Turn, profile: Profile = DEFAULT_PROFILE) -> LoweredRequest:
    asked = build_completion_request(turn, profile, real())
    return LoweredRequest(asked.body, asked.losses)


def prompt_of(turn: Turn) -> str:
    """The prompt of a turn, its control tokens spelt out."""
    return real().decode(lower_to_harmony(turn).body["prompt"])


def events_of(
    text: str | list[int], primed: str = "", stop: tuple[str, ...] = (), profile: Profile = DEFAULT_PROFILE
) -> list[Event]:
    """Returns the events of a reply, up to its end."""
    reply = HarmonyTokenDecoder(real(), counting_ids(), profile, marked(primed), stop)
    tokens = marked(text) if isinstance(text, str) else text
    return [*(event for token in tokens for event in reply.feed(token)), *reply.finish("completed")]
