"""`responses-gateway doctor` on every type of upstream at once, each over a socket of its own."""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from providers.config import ProviderType
from tests.integration.doctor.sound_models import WINDOW
from tests.integration.doctor.sound_upstreams import answer
from tests.integration.doctor.test_doctor import doctor
from tests.upstream import ScriptedUpstream

pytestmark = pytest.mark.timeout(180)

Json = dict[str, Any]

BACKENDS: dict[str, tuple[ProviderType, Json]] = {
    "sound-model": ("openai_compatible", {}),
    "on openai": ("openai", {"stop": "refused"}),
    "on openrouter": ("openrouter", {}),
    "claude-opus-4-8": ("anthropic", {}),
    "claude-sonnet-4-5": ("anthropic", {}),
    "gemini-3-pro-preview": ("gemini", {}),
    "gemini-2.5-flash": ("gemini", {}),
    "on ollama": ("ollama", {"tools_forced": "refused", "chat_tools_forced": "refused"}),
    "on vllm": ("vllm", {}),
    "on llama_server": ("llama_server", {}),
    "on harmony": (
        "harmony",
        {
            "tools_parallel": "refused",
            "messages_tools_parallel": "skipped",
            "images": "refused",
            "prefix_cache": "pass",
        },
    ),
}
"""Name -> the type of its upstream, and the checks that do not pass although the model has no faults."""


async def test_a_correct_model_passes_behind_every_api_and_missing_features_are_refused(tmp_path: Path) -> None:
    async with AsyncExitStack() as running:
        providers: Json = {}
        models: Json = {}
        for name, (kind, _) in BACKENDS.items():
            upstream = await running.enter_async_context(ScriptedUpstream())
            upstream.script(answer)
            provider = f"{kind} {len(providers)}"
            providers[provider] = {"type": kind, "base_url": upstream.url, "api_key": f"secret-of-{kind}", "retries": 0}
            model = "sound-model" if name.startswith("on ") else name
            models[name] = {"provider": provider, "model": model, "capabilities": {"max_context_window": WINDOW}}
        config = {"providers": providers, "models": models}
        done = await asyncio.to_thread(doctor, config, tmp_path, "--json")
    assert done.stderr == ""
    told = {
        backend["model"]: {
            check["check"]: (check["verdict"], check["detail"])
            for check in backend["checks"]
            if check["verdict"] != "pass"
        }
        for backend in json.loads(done.stdout)["backends"]
    }
    seen = {name: {check: verdict for check, (verdict, _) in found.items()} for name, found in told.items()}
    # The usage of the others has no cached tokens.
    results = {name: {"prefix_cache": "skipped", **exceptions} for name, (_, exceptions) in BACKENDS.items()}
    expected = {
        name: {check: verdict for check, verdict in found.items() if verdict != "pass"}
        for name, found in results.items()
    }
    assert seen == expected, told
    assert done.returncode == 0
    assert "secret-of" not in done.stdout
