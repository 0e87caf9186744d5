"""From settings to diagnoses: the gateway is started, every model examined, the gateway stopped."""

from collections.abc import Callable, Sequence
from typing import Final

import httpx

from gateway.config.settings import Settings
from gateway.doctor.checks.responses import CHECKS, Check
from gateway.doctor.checks.subjects import chosen, practice
from gateway.doctor.checks.verdicts import Diagnosis
from gateway.doctor.examine import examine
from gateway.doctor.local_gateway import hosted
from gateway.process.app import build_providers

_START_S: Final = 600.0
"""For embedded engines to load what they serve."""


def steps_of(settings: Settings, names: Sequence[str]) -> int:
    """How many checks `diagnose` will make. Raises NothingToExamine."""
    return len(chosen(settings, names)) * len(CHECKS)


def diagnose(
    settings: Settings,
    names: Sequence[str],
    deadline_s: float,
    beginning: Callable[[str], None] = lambda what: None,
    checks: Sequence[Check] = CHECKS,
) -> list[Diagnosis]:
    """The checks of the models in `names`, or of all whose names are no patterns. `beginning` is told of each.

    Raises NothingToExamine, and NotStarted.
    """
    models = chosen(settings, names)
    needed = {model.provider for model in models.values()}
    narrowed = settings.model_copy(
        update={"providers": {name: config for name, config in settings.providers.items() if name in needed}}
    )
    providers = build_providers(narrowed)
    through = practice(narrowed, models, providers)
    with (
        hosted(through.settings, providers, _START_S) as url,
        # No proxy of the environment stands between this process and itself.
        httpx.Client(base_url=url, headers={"authorization": f"Bearer {through.key}"}, trust_env=False) as client,
    ):
        diagnoses = []
        for subject in through.subjects:

            def starts(check: Check, of: str = subject.name) -> None:
                beginning(f"{of}: {check.title}")

            diagnoses.append(examine(client, subject, deadline_s, starts, checks))
        return diagnoses
