"""Renders the text that `serve` prints once it listens: the models, and an example request that works."""

import json

from gateway.config.settings import Settings
from gateway.terminal_text import format_table
from providers.config import EMBEDDED_TYPES

_MAX_MODELS = 20


def render_banner(settings: Settings, url: str) -> str:
    """Returns a text of some lines. `url` is the address of the server, without a path."""
    rows = [(name, ", ".join(row.provider for row in model.rows)) for name, model in settings.models.items()]
    lines = format_table([("MODEL", "PROVIDER"), *rows[:_MAX_MODELS]])
    if len(rows) > _MAX_MODELS:
        lines.append(f"and {len(rows) - _MAX_MODELS} more: responses-gateway models")
    return "\n".join([*lines, _render_example_call(settings, url), f"In a browser: {url}/"])


def _render_example_call(settings: Settings, url: str) -> str:
    headers = f' -H "Authorization: Bearer ${_key_variable(settings)}"' if settings.auth else ""
    model = _choose_example_model(settings)
    if model is None:
        return f"curl {url}/v1/models{headers}"
    body = json.dumps({"model": model, "input": "Hello"})
    return f"curl {url}/v1/responses{headers} -H 'Content-Type: application/json' -d '{body}'"


def _key_variable(settings: Settings) -> str:
    keys = settings.auth.keys if settings.auth else ()
    return next((key.key_env for key in keys if key.key_env), "KEY")


def _choose_example_model(settings: Settings) -> str | None:
    """Returns a model name that is no pattern: an embedded model, which is always available, or else the first.

    Returns None if all names are patterns.
    """
    names = [name for name in settings.models if not set("*?['") & set(name)]
    embedded = (
        name
        for name in names
        if any(settings.providers[row.provider].type in EMBEDDED_TYPES for row in settings.models[name].rows)
    )
    return next(embedded, next(iter(names), None))
