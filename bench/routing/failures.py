"""One of three replicas is killed, frozen or slowed down under load: `python -m bench.routing.failures`.

Prints what clients saw. Every answer must be whole, or end in one failure after its content: none is lost or doubled.
"""

import argparse
import asyncio
import signal
from collections import Counter
from collections.abc import Mapping
from typing import Final

from bench.routing.fleet import ClientTurn, Fleet, make_client, print_failures, send_turn, serve_fleet, wait_for

_WORDS: Final = 20
_ANSWER: Final = "".join(f"{number} " for number in range(_WORDS))

FAULTS: Final[Mapping[str, signal.Signals]] = {
    "kill -9": signal.SIGKILL,
    "freeze": signal.SIGSTOP,
    "slow": signal.SIGUSR1,
}


async def _ask_until(stop: asyncio.Event, url: str, seen: list[ClientTurn]) -> None:
    async with make_client() as client:
        while not stop.is_set():
            seen.append(await send_turn(client, url, [{"role": "user", "content": "Hi"}], max_tokens=_WORDS))


async def _run(fleet: Fleet, fault: signal.Signals, clients: int, seconds: float) -> list[ClientTurn]:
    stop, seen = asyncio.Event(), list[ClientTurn]()
    tasks = [asyncio.ensure_future(_ask_until(stop, fleet.url, seen)) for _ in range(clients)]
    await wait_for(seconds / 3)
    fleet.signal(0, fault)
    await wait_for(seconds * 2 / 3)
    stop.set()
    await asyncio.gather(*tasks)
    return seen


def _classify(turn: ClientTurn) -> str:
    if turn.outcome == "ok":
        if turn.text != _ANSWER:
            return "wrong"
        return "whole, first attempt" if turn.attempts == 1 else "whole, further attempt"
    return (
        "failed after content" if turn.outcome == "cut" and _ANSWER.startswith(turn.text) else f"lost: {turn.outcome}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=45)
    parser.add_argument("--seconds", type=float, default=9.0)
    options = parser.parse_args()
    columns = ("whole, first attempt", "whole, further attempt", "failed after content", "lost", "wrong")
    print(f"| one of three | {' | '.join(columns)} |")
    print(f"| --- {'| --- ' * len(columns)}|")
    for name, fault in FAULTS.items():
        with serve_fleet(3, {}, {"first_content_s": 1.0}) as fleet:
            turns = asyncio.run(_run(fleet, fault, options.clients, options.seconds))
            fleet.signal(0, signal.SIGCONT)
        counts = Counter(_classify(turn).partition(":")[0] for turn in turns)
        print(f"| {name} | {' | '.join(str(counts[column]) for column in columns)} |", flush=True)
        print_failures(turns)


if __name__ == "__main__":
    main()
