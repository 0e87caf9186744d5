"""The command line of a run."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_ROUNDS, _SECONDS = 5, 1.5
"""Many short rounds rather than few long ones: load of other processes comes and goes, and a median ignores it."""
_STATE_ROUNDS = 3
"""Fewer rounds for the state scenarios: each load runs twice, on each of two databases."""


@dataclass(frozen=True)
class RunOptions:
    """The options of a run."""

    rounds: int
    state_rounds: int
    seconds: float
    names: frozenset[str] | None = None
    """The names of the scenarios to measure. None means the default ones."""
    list: bool = False
    peers: bool = False
    keep: bool = False
    base: Path | None = None
    """The program of a gateway of another commit, which is measured in turn with this one."""

    def wants(self, name: str, *, default: bool = True) -> bool:
        """Returns whether to measure a scenario. `default`: a run without names includes it."""
        return default if self.names is None else name in self.names


def parse_options(names: Sequence[str], arguments: Sequence[str] | None = None) -> RunOptions:
    """Parses the command line. `names` are the names of all scenarios. Exits for options that are not valid."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure the gateway.")
    parser.add_argument("--quick", action="store_true", help="one short round of each scenario")
    parser.add_argument(
        "--rounds",
        type=int,
        help=f"rounds of each scenario; the median counts ({_ROUNDS}, with a store {_STATE_ROUNDS})",
    )
    parser.add_argument("--seconds", type=float, help=f"duration of one load in seconds ({_SECONDS})")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="only the scenario with this name, or else those whose names contain it; may be repeated",
    )
    parser.add_argument("--all", action="store_true", help="measure every scenario, which takes about half an hour")
    parser.add_argument("--list", action="store_true", help="print the names of all scenarios")
    parser.add_argument("--peers", action="store_true", help="also measure other routers and gateways")
    parser.add_argument("--keep", action="store_true", help="write the result to the baseline file")
    parser.add_argument(
        "--base",
        type=Path,
        metavar="PROGRAM",
        help="only the load scenarios, also with the gateway of another commit: make bench BASE=COMMIT builds it",
    )
    parsed = parser.parse_args(arguments)
    rounds, state_rounds, seconds = (1, 1, 1.0) if parsed.quick else (_ROUNDS, _STATE_ROUNDS, _SECONDS)
    chosen = _select_names(names, parsed.only) if parsed.only else frozenset(names) if parsed.all else None
    return RunOptions(
        rounds=parsed.rounds or rounds,
        state_rounds=parsed.rounds or state_rounds,
        seconds=parsed.seconds or seconds,
        names=chosen,
        list=parsed.list,
        peers=parsed.peers,
        keep=parsed.keep,
        base=parsed.base,
    )


def _select_names(names: Sequence[str], wanted: Sequence[str]) -> frozenset[str]:
    return frozenset(name for text in wanted for name in names if (name == text if text in names else text in name))
