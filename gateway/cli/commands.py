"""The command `responses-gateway`."""

import asyncio
import sys
from collections.abc import Coroutine
from dataclasses import fields
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer

from gateway.config import settings as settings_of
from gateway.config.settings import Settings
from gateway.config.yaml_file import ConfigError

app = typer.Typer(
    name="responses-gateway",
    help="OpenAI's Responses and Chat Completions APIs over whatever the model speaks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

DEFAULT_CONFIG = Path("config.yaml")

_ResultT = TypeVar("_ResultT")

ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="The configuration; ./config.yaml if there is one, else what is found.")
]


def main() -> None:
    """The console command. Exits with 2 when the configuration cannot be used."""
    app()


@app.callback(invoke_without_command=True)
def _print_version(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(f"responses-gateway {_installed_version()}")
        raise typer.Exit


@app.command()
def serve(
    config: ConfigOption = None,
    host: Annotated[str | None, typer.Option(help="The address to listen on, over server.host.")] = None,
    port: Annotated[
        int | None, typer.Option(help="The port to listen on, over server.port; 0 takes a free one.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Server processes, over server.workers.")] = None,
) -> None:
    """Serve until told to stop."""
    server_options = {"host": host, "port": port, "workers": workers}
    settings = _load_settings(config, {key: value for key, value in server_options.items() if value is not None})

    from gateway.process import serving

    if settings.store.url is not None:
        with serving.lean_imports():
            from gateway.state.database.migrate import validate_database_schema
        _run_store_command(validate_database_schema(settings.store.url, deadline_s=settings.store.deadline_s))
    chosen = settings.server
    serving.serve_gateway(settings, host=chosen.host, port=chosen.port, workers=chosen.workers)


@app.command()
def models(
    config: ConfigOption = None,
    capabilities: Annotated[
        bool, typer.Option("--capabilities", help="Print all of what each model can do, and what it cannot.")
    ] = False,
) -> None:
    """List what clients may ask for, who serves it, and what it can do."""
    settings = _load_settings(config, {})

    from gateway.cli.capability_table import render_matrix
    from gateway.text_table import format_table
    from providers.registry import build_provider

    built = {name: build_provider(name, provider) for name, provider in settings.providers.items()}
    effective = {
        name: model.resolve_capabilities(built[model.provider].capabilities) for name, model in settings.models.items()
    }
    if capabilities:
        typer.echo("\n".join(render_matrix(effective)))
        return
    rows = [("MODEL", "PROVIDER", "UPSTREAM MODEL", "CAPABILITIES")]
    for name, model in settings.models.items():
        flags = [field.name for field in fields(effective[name]) if getattr(effective[name], field.name) is True]
        rows.append((name, model.provider, model.model or "the same", " ".join(flags)))
    typer.echo("\n".join(format_table(rows)))


@app.command(name="check-config")
def check_config(file: Annotated[Path, typer.Argument(help="The configuration to check.")]) -> None:
    """Say whether a configuration can be used; if not, everything that is wrong with it."""
    settings = _load_settings(file, {})

    from gateway.config.own_address import find_missing_paths

    for hint in find_missing_paths(settings.providers):
        typer.echo(f"{file}: warning: {hint}", err=True)
    keys = settings.auth.keys if settings.auth else ()
    counts = ((settings.providers, "provider"), (settings.models, "model"), (keys, "key"))
    typer.echo(f"{file}: ok: {', '.join(_format_count(len(what), word) for what, word in counts)}")


@app.command()
def migrate(config: ConfigOption = None) -> None:
    """Bring the database to this version. Serving refuses one that is not, except a SQLite file, which it brings."""
    settings = _load_settings_with_store(config)

    from gateway.state.database.migrate import migrate_database as run

    assert settings.store.url is not None
    typer.echo(f"the database is of version {_run_store_command(run(settings.store.url))}")


@app.command()
def doctor(
    config: ConfigOption = None,
    model: Annotated[list[str] | None, typer.Option(help="A model to examine; may be given again.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    html: Annotated[Path | None, typer.Option(help="Write a page with the report to this file.")] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds for each request.")] = 120.0,
) -> None:
    """Try what every model can do through the gateway. Exits with 1 when something that is declared fails."""
    settings = _load_settings(config, {})

    from gateway.doctor.checks.subjects import NothingToExamine
    from gateway.doctor.command import run_doctor
    from gateway.doctor.local_gateway import GatewayNotStarted

    if html is not None:
        _require_writable(html)
    try:
        healthy = run_doctor(settings, model or (), deadline_s=timeout, as_json=as_json, html=html)
    except NothingToExamine as nothing:
        _exit_with_error(str(nothing))
    except GatewayNotStarted as failure:
        typer.echo(str(failure), err=True)
        healthy = False
    raise typer.Exit(0 if healthy else 1)


OwnerOption = Annotated[str, typer.Option("--owner", help="Whose: the name of a key, or `anonymous`.")]


@app.command()
def erase(owner: OwnerOption, config: ConfigOption = None) -> None:
    """Delete everything that is stored for one owner, running or not."""
    settings = _load_settings_with_store(config)

    from gateway.cli.owner_data import erase_owner as run

    typer.echo(f"erased {_format_count(_run_store_command(run(settings, owner)), 'object')} of {owner}")


@app.command()
def export(owner: OwnerOption, config: ConfigOption = None) -> None:
    """Print everything that is stored for one owner: one JSON object a line."""
    settings = _load_settings_with_store(config)

    from gateway.cli.owner_data import export_owner as run

    _run_store_command(run(settings, owner, sys.stdout.buffer))


def _load_settings_with_store(config: Path | None) -> Settings:
    settings = _load_settings(config, {})
    if settings.store.url is None:
        _exit_with_error("nothing is stored: the config has no store.url")
    return settings


def _run_store_command(work: Coroutine[Any, Any, _ResultT]) -> _ResultT:
    """The result of `work`. Exits with 1 when the database cannot be used, with 2 when it is of another version."""
    from gateway.errors import StoreUnavailable
    from gateway.logs import configure_logs
    from gateway.state.store import SchemaMismatch

    configure_logs()  # on stderr: what is printed may be data
    try:
        return asyncio.run(work)
    except StoreUnavailable as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    except SchemaMismatch as error:
        _exit_with_error(str(error))


def _load_settings(config: Path | None, server: dict[str, Any]) -> Settings:
    if config is None and DEFAULT_CONFIG.exists():
        config = DEFAULT_CONFIG
    try:
        if config is not None:
            return settings_of.load_settings(config, server=server)
        return settings_of.discover_settings(server=server)
    except ConfigError as error:
        _exit_with_error(str(error))


def _require_writable(file: Path) -> None:
    is_new = not file.exists()
    try:
        file.open("a").close()
        if is_new:
            file.unlink()
    except OSError as error:
        _exit_with_error(f"{file} cannot be written: {error.strerror}")


def _exit_with_error(why: str) -> NoReturn:
    typer.echo(why, err=True)
    raise typer.Exit(2)


def _installed_version() -> str:
    try:
        return metadata.version("responses-gateway")
    except metadata.PackageNotFoundError:
        return "(run from its source, not installed)"


def _format_count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
