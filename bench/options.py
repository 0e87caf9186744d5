"""The command line of a run."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

_ROUNDS, _SECONDS = 5, 1.5
"""Many short rounds rather than few long ones: foreign load comes and goes, and a median forgets it."""
_STATE_ROUNDS = 3
"""Of loads that come twice, on each of two databases."""


@dataclass(frozen=True)
class Options:
    rounds: int
    state_rounds: int
    seconds: float
    names: frozenset[str] | None = None
    """What is measured; None is what a run that names nothing has."""
    list: bool = False
    peers: bool = False
    keep: bool = False

    def wants(self, name: str, *, default: bool = True) -> bool:
        return default if self.names is None else name in self.names


def options(names: Sequence[str], arguments: Sequence[str] | None = None) -> Options:
    """What the command line says; `names` are those of all scenarios."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure the gateway.")
    parser.add_argument("--quick", action="store_true", help="one short round of each scenario")
    parser.add_argument(
        "--rounds",
        type=int,
        help=f"how often each is measured; the median counts ({_ROUNDS}; with a store {_STATE_ROUNDS})",
    )
    parser.add_argument("--seconds", type=float, help=f"length of one measurement ({_SECONDS})")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="only the scenario of this name, or where there is none, those whose name holds this; may be given again",
    )
    parser.add_argument("--all", action="store_true", help="every scenario, which takes about half an hour")
    parser.add_argument("--list", action="store_true", help="print the names of all scenarios")
    parser.add_argument("--peers", action="store_true", help="measure other routers and gateways too")
    parser.add_argument("--keep", action="store_true", help="write the result to the baseline file")
    given = parser.parse_args(arguments)
    rounds, state_rounds, seconds = (1, 1, 1.0) if given.quick else (_ROUNDS, _STATE_ROUNDS, _SECONDS)
    chosen = _named(names, given.only) if given.only else frozenset(names) if given.all else None
    return Options(
        rounds=given.rounds or rounds,
        state_rounds=given.rounds or state_rounds,
        seconds=given.seconds or seconds,
        names=chosen,
        list=given.list,
        peers=given.peers,
        keep=given.keep,
    )


def _named(names: Sequence[str], wanted: Sequence[str]) -> frozenset[str]:
    return frozenset(name for text in wanted for name in names if (name == text if text in names else text in name))
