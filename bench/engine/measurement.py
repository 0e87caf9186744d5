"""`make bench-engine`: measures vLLM inside the gateway, with one pass and with two.

It measures the share of the second pass's prompt that is in the engine's cache, the tokens per second of one request
and of sixteen concurrent ones, the time to the first delta, and the time to a reply of `/healthz` under that load.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles

import httpx

from bench.reports.result_files import RESULTS_FOLDER, write_results
from bench.servers.processes import start_announcing_server

_ROOT = Path(__file__).parents[2]
_RESULTS = RESULTS_FOLDER / "engine.json"
_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "TORCHDYNAMO_DISABLE": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
    "PYTHONPATH": str(_ROOT),
}
_CONFIG = {
    "store": {"url": None},
    "providers": {
        "local": {
            "type": "vllm_inprocess",
            "model": str(_ROOT / "models/tiny-reasoner"),
            "engine": {
                "dtype": "float32",
                "enforce_eager": True,
                "max_model_len": 4096,
                "max_num_seqs": 16,
                "block_size": 32,
                "kv_cache_memory_bytes": 256 << 20,
            },
        }
    },
    "models": {
        "one pass": {"provider": "local"},
        "two passes": {"provider": "local", "two_pass": True, "max_thinking_tokens": 64},
    },
}
_CONCURRENT_REQUESTS = 16
_SINGLE_REQUESTS = 5
_HEALTH_TARGET_MS = 50.0
_HEALTH_INTERVAL_S = 0.01


@dataclass(frozen=True)
class TimedReply:
    """The times of one request, and the tokens of its reply."""

    first_delta_ms: float
    seconds: float
    tokens: int


@dataclass(frozen=True)
class ModelFigures:
    """The figures of one model of the configuration. Times are in milliseconds, rates in tokens per second."""

    model: str
    first_delta_ms: float
    alone_tok_s: float
    at_once_tok_s: float
    health_p50_ms: float
    health_p99_ms: float
    health_max_ms: float


async def _send_request(client: httpx.AsyncClient, model: str, number: int) -> TimedReply:
    """Sends one request. Its question differs from all others, so that only the instructions are in the cache."""
    body = {
        "model": model,
        "instructions": "You are a careful assistant. " * 12,
        "input": f"Think in 9 steps about river {number}.",
        "temperature": 0,
        "stream": True,
        "max_output_tokens": 160,
    }
    began, first, tokens = time.perf_counter(), None, 0
    async with client.stream("POST", "/v1/responses", json=body) as reply:
        reply.raise_for_status()
        async for line in reply.aiter_lines():
            if first is None and line.startswith("event: ") and line.endswith(".delta"):
                first = time.perf_counter()
            if line.startswith("data: ") and '"usage":{' in line:
                tokens = json.loads(line[6:])["response"]["usage"]["output_tokens"]
    ended = time.perf_counter()
    if first is None or not tokens:
        raise RuntimeError(f"{model} sent no text or no usage")
    return TimedReply((first - began) * 1000, ended - began, tokens)


async def _time_health_replies(client: httpx.AsyncClient, until: asyncio.Event) -> list[float]:
    times_ms: list[float] = []
    while not until.is_set():
        began = time.perf_counter()
        (await client.get("/healthz")).raise_for_status()
        times_ms.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(_HEALTH_INTERVAL_S)
    return times_ms


async def _measure(client: httpx.AsyncClient, model: str) -> ModelFigures:
    await _send_request(client, model, 0)
    alone = [await _send_request(client, model, number) for number in range(1, _SINGLE_REQUESTS + 1)]
    done = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        health = tasks.create_task(_time_health_replies(client, done))
        began = time.perf_counter()
        together = await asyncio.gather(
            *(_send_request(client, model, 100 + number) for number in range(_CONCURRENT_REQUESTS))
        )
        seconds = time.perf_counter() - began
        done.set()
    health_times_ms = await health
    return ModelFigures(
        model,
        first_delta_ms=median(turn.first_delta_ms for turn in alone),
        alone_tok_s=median(turn.tokens / turn.seconds for turn in alone),
        at_once_tok_s=sum(turn.tokens for turn in together) / seconds,
        health_p50_ms=median(health_times_ms),
        health_p99_ms=quantiles(health_times_ms, n=100)[98],
        health_max_ms=max(health_times_ms),
    )


def _count_cached_tokens(notes: Path) -> tuple[int, int]:
    """Returns the cached prompt tokens and all prompt tokens of the second passes."""
    turns: dict[int, list[dict[str, int]]] = defaultdict(list)
    for line in notes.read_text().splitlines():
        note = json.loads(line)
        turns[note["turn"]].append(note)
    second = [passes[1] for passes in turns.values() if len(passes) == 2]
    return sum(note["cached"] or 0 for note in second), sum(note["prompt"] for note in second)


async def _measure_models(port: int) -> list[ModelFigures]:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=120) as client:
        return [await _measure(client, model) for model in ("one pass", "two passes")]


def main() -> int:
    python = os.environ.get("ENGINE_PYTHON")
    if python is None:
        sys.exit("ENGINE_PYTHON must be the path of a Python with vLLM. `make bench-engine` sets one up.")
    with tempfile.TemporaryDirectory() as home:
        config, notes = Path(home) / "config.json", Path(home) / "runs.jsonl"
        config.write_text(json.dumps(_CONFIG))
        command = [python, "-m", "bench.engine.recording_gateway", str(config), str(notes)]
        with start_announcing_server("engine", command, None, Path(home) / "server.log", _ENVIRONMENT) as server:
            rows = asyncio.run(_measure_models(server.port))
        cached, prompt = _count_cached_tokens(notes)
    print("             first delta   alone   16 at once   /healthz p50    p99    max")
    for row in rows:
        print(
            f"{row.model:<12} {row.first_delta_ms:8.0f} ms {row.alone_tok_s:7.0f} {row.at_once_tok_s:12.0f} tok/s"
            f" {row.health_p50_ms:8.1f} {row.health_p99_ms:6.1f} {row.health_max_ms:6.1f} ms"
        )
    print(f"second passes: {cached} of {prompt} prompt tokens were in the engine's cache ({cached / prompt:.0%})")
    results = {"rows": [asdict(row) for row in rows], "second_pass": {"cached": cached, "prompt": prompt}}
    write_results(results, _RESULTS)
    late = [row.model for row in rows if row.health_p99_ms > _HEALTH_TARGET_MS]
    print(f"/healthz within {_HEALTH_TARGET_MS:.0f} ms in 99 of 100: {'no: ' + ', '.join(late) if late else 'yes'}")
    return 1 if late else 0
