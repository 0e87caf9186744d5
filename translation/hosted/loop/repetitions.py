"""Finds calls that are made again and again although their results stay the same."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

import orjson

from translation.hosted.calls import HostedCall
from translation.hosted.outcomes import ToolOutcome
from translation.hosted.tools import ToolKey
from translation.representation.json_types import Json

_SAME_RESULT: Final = (
    "\n\n[Note: the same call returned the same result before. Use it, or do something else: calling the tool again "
    "with these arguments brings nothing new.]"
)
_NOT_RUN: Final = (
    "This call was not run: the same call with the same arguments was made {count} times already, and its result "
    "stayed the same. Use that result, or do something else."
)


@dataclass(slots=True)
class _Results:
    """The last result of calls with one fingerprint, and how many times in a row it was returned."""

    digest: str = ""
    count: int = 0


class RepetitionCounter:
    """Counts calls of one response with the same arguments and the same result.

    The last of `limit` identical calls is not run. Calls whose results change, such as calls that wait for something,
    are not counted.
    """

    def __init__(self, limit: int) -> None:
        self.is_exceeded = False
        """Whether a call was not run because of the limit. Then the tools are removed from further rounds."""
        self._limit = limit
        self._results: dict[tuple[ToolKey, str], _Results] = {}
        self._running: Counter[tuple[ToolKey, str]] = Counter()

    def save(self) -> Json:
        """Returns the counts of the calls that have ended as JSON."""
        results = [[*key, arguments, each.digest, each.count] for (key, arguments), each in self._results.items()]
        return {"exceeded": self.is_exceeded, "results": results}

    def restore(self, saved: Json, running: Iterable[HostedCall]) -> None:
        """Restores the counts that `save` returned. `running` are the calls that have not ended."""
        self.is_exceeded = saved["exceeded"]
        for server, name, arguments, digest, count in saved["results"]:
            self._results[ToolKey(server, name), arguments] = _Results(digest, count)
        self._running.update(call.fingerprint for call in running)

    def begin_call(self, call: HostedCall) -> str | None:
        """Counts a call that is about to be run.

        Returns the error for the model if the call must not be run, else None.
        """
        fingerprint = call.fingerprint
        made = self._results.get(fingerprint, _Results()).count + self._running[fingerprint]
        if made + 1 >= self._limit:
            self.is_exceeded = True
            return _NOT_RUN.format(count=made)
        self._running[fingerprint] += 1
        return None

    def end_call(self, call: HostedCall, outcome: ToolOutcome) -> str:
        """Counts the outcome of a call. Returns a note to append to the result for the model, possibly empty."""
        fingerprint = call.fingerprint
        self._running[fingerprint] -= 1
        digest = sha256(orjson.dumps([outcome.output, outcome.error, [*outcome.media]])).hexdigest()
        results = self._results.setdefault(fingerprint, _Results())
        results.count = results.count + 1 if results.digest == digest else 1
        results.digest = digest
        return _SAME_RESULT if results.count > 1 else ""
