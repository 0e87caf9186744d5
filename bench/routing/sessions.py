"""Sessions of agents before replicas with prefix caches: `python -m bench.routing.sessions`.

Prints a table of ways to share turns: the share of the prompt that was cached, and the time to first content.
"""

import argparse
import asyncio
import random
import statistics
import time
from collections.abc import Mapping
from typing import Any, Final

from bench.routing.fleet import ClientTurn, make_client, print_failures, send_turn, serve_fleet

WAYS: Final[Mapping[str, Mapping[str, object]]] = {
    "round robin": {"balance": "weighted", "affinity": "none"},
    "least busy": {"balance": "least_busy", "affinity": "none"},
    "prefix": {"balance": "prefix", "affinity": "none"},
    "session key": {"balance": "least_busy", "affinity": "auto"},
}


async def _run_session(number: int, url: str, turns: int, gate: asyncio.Semaphore, seen: list[ClientTurn]) -> None:
    rng = random.Random(number)
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": f"You are agent {number}. " + _make_text(rng, 5_000)}
    ]
    ended = time.perf_counter()
    async with make_client() as client:
        for _ in range(turns):
            messages.append({"role": "user", "content": _make_text(rng, 600)})
            async with gate:
                idle_s = time.perf_counter() - ended
                turn = await send_turn(client, url, messages, max_tokens=4, prompt_cache_key=f"session-{number}")
            ended = time.perf_counter()
            # An idle connection may be closed by either side, at the moment at which it is used again.
            seen.append(turn._replace(reason=f"{turn.reason}, {idle_s:.1f} s after the turn before"))
            messages.append({"role": "assistant", "content": turn.text})


def _make_text(rng: random.Random, chars: int) -> str:
    return "".join(rng.choices("abcdefghijklmnopqrstuvwxyz ", k=chars))


async def _run(url: str, sessions: int, turns: int, at_once: int) -> list[ClientTurn]:
    gate, seen = asyncio.Semaphore(at_once), list[ClientTurn]()
    await asyncio.gather(*(_run_session(number, url, turns, gate, seen) for number in range(sessions)))
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicas", type=int, default=8)
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--at-once", type=int, default=24)
    parser.add_argument("--only", choices=WAYS, help="measure only this way")
    options = parser.parse_args()
    print("| turns go by | cached share of the prompt | first content, median | 95th percentile | not ok |")
    print("| --- | --- | --- | --- | --- |")
    for way, model in WAYS.items():
        if options.only not in (None, way):
            continue
        with serve_fleet(options.replicas, model, {}) as fleet:
            turns = asyncio.run(_run(fleet.url, options.sessions, options.turns, options.at_once))
        blocks = sum(turn.prompt_blocks for turn in turns)
        share = sum(turn.cached_blocks for turn in turns) / blocks if blocks else 0.0
        times = sorted(turn.first_s * 1000 for turn in turns if turn.outcome == "ok")
        late = times[int(len(times) * 0.95)]
        failed = sum(turn.outcome != "ok" for turn in turns)
        print_failures(turns)
        print(f"| {way} | {share:.0%} | {statistics.median(times):.0f} ms | {late:.0f} ms | {failed} |", flush=True)


if __name__ == "__main__":
    main()
