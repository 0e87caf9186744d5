"""Turns settings into diagnoses: starts the gateway, examines every model, stops the gateway."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Final, TypeAlias

import httpx

from gateway.config.settings import Settings
from gateway.doctor.checks.check_list import CHECKS, FeatureCheck
from gateway.doctor.checks.subjects import prepare_examination, select_models
from gateway.doctor.checks.verdicts import Diagnosis
from gateway.doctor.examine import examine
from gateway.doctor.sample_tools import serve_sample_tools
from gateway.service.provider_lifetimes import build_providers
from providers.base import Provider

ServeLocally: TypeAlias = Callable[[Settings, Mapping[str, Provider], float], AbstractContextManager[str]]
"""Runs a gateway with these providers while its block is open, and yields its URL. The last argument is the time that
its start may take, in seconds."""

_START_TIMEOUT_S: Final = 600.0
"""Time for embedded engines to load their models."""


def count_checks(settings: Settings, names: Sequence[str]) -> int:
    """Returns how many checks `diagnose` will run. Raises NoModelsSelected."""
    return len(select_models(settings, names)) * len(CHECKS)


def diagnose(
    settings: Settings,
    names: Sequence[str],
    serve: ServeLocally,
    deadline_s: float,
    on_step: Callable[[str], None] = lambda step: None,
    checks: Sequence[FeatureCheck] = CHECKS,
) -> list[Diagnosis]:
    """Examines the models in `names`, or all models whose names are no patterns.

    `deadline_s` is the time for each request. `on_step` is called with a description of each check before it runs.
    Raises NoModelsSelected, and what `serve` raises.
    """
    models = select_models(settings, names)
    provider_names = {row.provider for model in models.values() for row in model.config.rows}
    # The model of embeddings is examined by itself, and its provider may be none of these.
    file_search = settings.tools.file_search.model_copy(update={"embeddings": None})
    reduced_settings = settings.model_copy(
        update={
            "providers": {name: config for name, config in settings.providers.items() if name in provider_names},
            "tools": settings.tools.model_copy(update={"file_search": file_search}),
        }
    )
    providers = build_providers(reduced_settings)
    with ExitStack() as stack:
        tools_url = None
        if any(check.uses_sample_tools for check in checks):
            tools_url = stack.enter_context(serve_sample_tools())
        examination = prepare_examination(reduced_settings, models, providers, tools_url)
        url = stack.enter_context(serve(examination.settings, providers, _START_TIMEOUT_S))
        # Requests to this process must not use a proxy that the environment configures.
        headers = {"authorization": f"Bearer {examination.key}"}
        client = stack.enter_context(httpx.Client(base_url=url, headers=headers, trust_env=False))
        diagnoses = []
        for subject in examination.subjects:

            def on_check(check: FeatureCheck, of: str = subject.name) -> None:
                on_step(f"{of}: {check.title}")

            diagnoses.append(examine(client, subject, deadline_s, on_check, checks))
        return diagnoses
