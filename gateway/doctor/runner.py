"""From settings to diagnoses: the gateway is started, every model examined, the gateway stopped."""

from collections.abc import Callable, Sequence
from typing import Final

import httpx

from gateway.config.settings import Settings
from gateway.doctor.checks.responses import CHECKS, FeatureCheck
from gateway.doctor.checks.subjects import prepare_examination, select_models
from gateway.doctor.checks.verdicts import Diagnosis
from gateway.doctor.examine import examine
from gateway.doctor.local_gateway import serve_locally
from gateway.process.app import build_providers

_START_TIMEOUT_S: Final = 600.0
"""For embedded engines to load what they serve."""


def count_checks(settings: Settings, names: Sequence[str]) -> int:
    """How many checks `diagnose` will make. Raises NothingToExamine."""
    return len(select_models(settings, names)) * len(CHECKS)


def diagnose(
    settings: Settings,
    names: Sequence[str],
    deadline_s: float,
    on_step: Callable[[str], None] = lambda what: None,
    checks: Sequence[FeatureCheck] = CHECKS,
) -> list[Diagnosis]:
    """The checks of the models in `names`, or of all whose names are no patterns. `beginning` is told of each.

    Raises NothingToExamine, and NotStarted.
    """
    models = select_models(settings, names)
    needed = {model.provider for model in models.values()}
    narrowed = settings.model_copy(
        update={"providers": {name: config for name, config in settings.providers.items() if name in needed}}
    )
    providers = build_providers(narrowed)
    examination = prepare_examination(narrowed, models, providers)
    with (
        serve_locally(examination.settings, providers, _START_TIMEOUT_S) as url,
        # No proxy of the environment stands between this process and itself.
        httpx.Client(base_url=url, headers={"authorization": f"Bearer {examination.key}"}, trust_env=False) as client,
    ):
        diagnoses = []
        for subject in examination.subjects:

            def on_check(check: FeatureCheck, of: str = subject.name) -> None:
                on_step(f"{of}: {check.title}")

            diagnoses.append(examine(client, subject, deadline_s, on_check, checks))
        return diagnoses
