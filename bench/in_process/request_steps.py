"""Measures the CPU of a short request inside the gateway. `python -m bench.in_process` prints it step by step.

There are no sockets: the application runs in one thread with an upstream that answers at once, and then the server with
all its HTTP (`no_sockets`). Each figure is the least processor time of several rounds, which load of other processes
hardly changes.
"""

import gc
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, Final

import orjson

from bench.in_process import no_sockets
from bench.load.replies import Model
from gateway.config.settings import Settings
from gateway.dialects.chat.endpoint import CHAT
from gateway.dialects.responses.endpoint import RESPONSES
from gateway.http.auth import ANONYMOUS
from gateway.http.guard import DrainState
from gateway.process.app import create_app
from gateway.service.admission import ClientRequest
from gateway.service.provider_lifetimes import build_providers
from gateway.service.service import Service
from providers.base import Batch, Capabilities, CountMethod, Dialect, Exchange, Provider, RelayExchange
from providers.new_id import new_id
from translation.chat.upstream.decode import ChatDecoder
from translation.chat.upstream.lower import lower
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn

_ROUNDS: Final = 7
_REPETITIONS: Final = 700

_BODY: Final[Json] = {"model": "bench", "input": "Say the tokens.", "store": False}
_CHAT_BODY: Final[Json] = {"model": "bench", "messages": [{"role": "user", "content": "Say the tokens."}]}
_TEXT: Final = Model.named("bench-128").text
_ANSWER: Final[Json] = {
    "id": "chatcmpl-bench",
    "object": "chat.completion",
    "created": 1,
    "model": "bench",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": _TEXT}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 128, "total_tokens": 133},
}


class _InstantProvider:
    """A chat upstream without a socket: the turn is lowered and a fixed answer is decoded."""

    name = "at-once"
    capabilities = Capabilities(dialects=frozenset())

    def prepare(self, turn: Turn, profile: Profile) -> Exchange:
        return _InstantExchange(turn, profile)

    def prepare_relay(self, dialect: Dialect, body: Json, credentials: Sequence[str] = ()) -> RelayExchange:
        raise NotImplementedError

    async def count_tokens(self, turn: Turn, profile: Profile, method: CountMethod) -> int:
        raise NotImplementedError

    async def list_models(self) -> Sequence[str]:
        return []

    def redact(self, message: str) -> str:
        return message

    async def aclose(self) -> None:
        pass


class _InstantExchange:
    def __init__(self, turn: Turn, profile: Profile) -> None:
        self._body, self.losses = lower(turn, profile)
        self._profile = profile

    losses: Sequence[Loss]

    async def batches(self) -> AsyncGenerator[Batch, None]:
        orjson.dumps(self._body)
        decoder = ChatDecoder(new_id, self._profile)
        yield [*decoder.feed(orjson.loads(orjson.dumps(_ANSWER))), *decoder.finish()]


async def _measure_cost(step: Callable[[], Awaitable[object]], times: int) -> float:
    """Returns the processor time of one step in µs: the least of several rounds."""
    least = float("inf")
    gc.collect()
    gc.freeze()  # as the server does after its start
    for _ in range(_ROUNDS):
        began = time.process_time()
        for _ in range(times):
            await step()
        least = min(least, (time.process_time() - began) / times)
    return least * 1e6


async def measure_steps(times: int = _REPETITIONS) -> dict[str, float]:
    """Returns the µs of each step by its description. Each step runs `times` times per round.

    A step includes the steps above it for the same API. It must run on an `UpstreamLoop`.
    """
    settings = Settings.model_validate(
        {
            "store": {"url": None},
            "providers": {"at-once": {"type": "openai_compatible", "base_url": "http://127.0.0.1:9/v1"}},
            "models": {"*": {"provider": "at-once"}},
        }
    )
    provider: Provider = _InstantProvider()
    providers = build_providers(settings, {"at-once": provider})
    service = Service(settings, providers, DrainState())
    app = create_app(settings, DrainState(), providers)
    content = orjson.dumps(_BODY)
    scope: dict[str, Any] = {
        "type": "http",
        "method": "POST",
        "path": "/v1/responses",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())],
    }
    replies: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": content, "more_body": False}

    async def send(message: Any) -> None:
        replies.append(message)

    async def accept_response() -> None:
        await service.accept(ClientRequest(RESPONSES, ANONYMOUS, dict(_BODY)))

    async def accept_chat() -> None:
        await service.accept(ClientRequest(CHAT, ANONYMOUS, dict(_CHAT_BODY)))

    async def produce_response() -> None:
        reply = await service.accept(ClientRequest(RESPONSES, ANONYMOUS, dict(_BODY)))
        orjson.dumps(await reply.produce_reply())

    async def call_application() -> None:
        replies.clear()
        await app(dict(scope), receive, send)

    await call_application()
    if replies[0]["status"] != 200 or b" token0000" not in replies[1]["body"]:
        raise RuntimeError(f"the application replied with {replies}")
    return {
        "chat: checked, routed, lifted, lowered": await _measure_cost(accept_chat, times),
        "responses: checked, routed, lifted, lowered": await _measure_cost(accept_response, times),
        "responses: the same, and its answer decoded and encoded": await _measure_cost(produce_response, times),
        "responses: the same, and as an ASGI application: id, body, guard, headers, log line": await _measure_cost(
            call_application, times
        ),
        **await no_sockets.measure_http_steps(_measure_cost, times),
    }


def main() -> int:
    with no_sockets.run_upstream_loop() as runner:
        for step, cost in runner.run(measure_steps()).items():
            print(f"{cost:7.1f} µs  {step}")
    return 0
