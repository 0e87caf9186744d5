"""Clients that read one stream after the other, and report everything that a user would notice."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from time import monotonic
from typing import Any, Final, TypeAlias

import httpx
import orjson

StreamEvent: TypeAlias = dict[str, Any]

_DATA: Final = "data: "
_LAST_EVENT: Final = "response.completed"
_SPREAD_S: Final = 3.0
"""Seconds over which clients begin, because users do not all begin at once."""

_PAUSE_S: Final = 0.05
"""Seconds between two streams of a client."""

_LONGEST_PART: Final = 10
"""A client leaves its stream after this many events at the most."""


class StreamProblem(Exception):
    """A stream is not what it should be."""


class StreamResults:
    """What became of all streams."""

    def __init__(self) -> None:
        self.completed = 0
        self.resumed = 0
        """How often a client read a stream on after it had left it."""
        self.live = 0
        self.problems: Counter[str] = Counter()
        """What went wrong: the reason, and how often."""
        self.phase = ""
        """What is done with the replicas, and since when, for the reasons of problems."""
        self.phase_began = monotonic()
        self.is_over = False
        """Whether clients begin no further stream."""

    def begin_phase(self, phase: str) -> None:
        """Says what is done with the replicas from now on."""
        self.phase, self.phase_began = phase, monotonic()

    def add_problem(self, problem: Exception) -> None:
        """Counts a stream that is not what it should be."""
        reason = f"{_describe_problem(problem)} ({self.phase}, second {monotonic() - self.phase_began:.0f})"
        self.problems[reason] += 1


class EventChecker:
    """Follows the events of one stream over all its connections: none may be missing, or come twice."""

    def __init__(self) -> None:
        self.response_id = ""
        self.last_number = -1
        self.text = ""
        self.is_complete = False

    def check(self, event: StreamEvent) -> None:
        """Raises StreamProblem."""
        if event["sequence_number"] != self.last_number + 1:
            raise StreamProblem(f"event {event['sequence_number']} follows event {self.last_number}")
        self.last_number += 1
        kind = event["type"]
        if kind == "response.created":
            self.response_id = event["response"]["id"]
        elif kind == "response.output_text.delta":
            self.text += event["delta"]
        elif kind == _LAST_EVENT:
            self.is_complete = True
            texts = [part["text"] for item in event["response"]["output"] for part in item.get("content", ())]
            if "".join(texts) != self.text:
                raise StreamProblem("the text of the response is not that of its deltas")
        elif kind in ("response.failed", "response.incomplete", "error"):
            error = event if kind == "error" else event["response"].get("error")
            raise StreamProblem(f"{kind}: {orjson.dumps(error).decode()[:200]}")


class StreamClient:
    """One user with one stream at a time."""

    def __init__(self, http: httpx.AsyncClient, model: str, results: StreamResults, *, resumes: bool) -> None:
        """With `resumes` it asks for streams that can be resumed, leaves each in the middle, and reads on elsewhere."""
        self._http = http
        self._model = model
        self._results = results
        self._resumes = resumes
        self._random = random.Random(id(self))  # when a user leaves is no secret

    async def run(self) -> None:
        """Reads streams until the measurement is over."""
        results = self._results
        await asyncio.sleep(self._random.uniform(0, _SPREAD_S))
        while not results.is_over:
            results.live += 1
            try:
                await self._read_stream()
                results.completed += 1
            except (StreamProblem, httpx.HTTPError) as problem:
                results.add_problem(problem)
            finally:
                results.live -= 1
            await asyncio.sleep(_PAUSE_S)

    async def _read_stream(self) -> None:
        checker = EventChecker()
        body = {"model": self._model, "input": "Hello", "stream": True, "resumable": self._resumes}
        await self._read_part(checker, self._http.build_request("POST", "/responses", json=body))
        while not checker.is_complete:
            self._results.resumed += 1
            params = {"stream": "true", "starting_after": str(checker.last_number)}
            request = self._http.build_request("GET", f"/responses/{checker.response_id}", params=params)
            await self._read_part(checker, request)

    async def _read_part(self, checker: EventChecker, request: httpx.Request) -> None:
        """Reads events until the stream ends, or, if it can be resumed, until the user leaves."""
        count = self._random.randint(2, _LONGEST_PART) if self._resumes else None
        reply = await self._http.send(request, stream=True)
        try:
            if reply.status_code != httpx.codes.OK:
                raise StreamProblem(f"status {reply.status_code}: {(await reply.aread()).decode()[:200]}")
            async for event in _read_events(reply):
                checker.check(event)
                if count is not None:
                    count -= 1
                    if count == 0:
                        return
            if not checker.is_complete:
                raise StreamProblem("the stream ended without an end")
        finally:
            await reply.aclose()


def _describe_problem(problem: Exception) -> str:
    """Returns what went wrong in one line. The message of a lost connection is empty, and its cause has the reason."""
    texts = [f"{type(problem).__name__}: {problem}"]
    cause = problem.__cause__
    while cause is not None:
        texts.append(repr(cause))
        cause = cause.__cause__ or cause.__context__
    return " < ".join(texts)[:240]


async def _read_events(reply: httpx.Response) -> AsyncIterator[StreamEvent]:
    async for line in reply.aiter_lines():
        if line.startswith(_DATA) and not line.endswith("[DONE]"):
            yield orjson.loads(line.removeprefix(_DATA))


async def run_clients(
    base_url: str, models: Sequence[str], count: int, results: StreamResults, *, idle_s: float
) -> None:
    """Runs clients until `results` is over and their streams have ended. They take turns in the models, and in whether
    they resume. They keep a connection that is idle for `idle_s`."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=idle_s)
    async with (
        httpx.AsyncClient(base_url=base_url, timeout=60.0, limits=limits, trust_env=False) as http,
        asyncio.TaskGroup() as tasks,
    ):
        for number in range(count):
            model, resumes = models[number % len(models)], number // len(models) % 2 == 1
            tasks.create_task(StreamClient(http, model, results, resumes=resumes).run())
