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
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
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
    given = {"host": host, "port": port, "workers": workers}
    settings = _settings(config, {key: value for key, value in given.items() if value is not None})

    from gateway.process import serving

    if settings.store.url is not None:
        with serving.lean_imports():
            from gateway.state.database.migrate import refuse_mismatch
        _with_store(refuse_mismatch(settings.store.url, deadline_s=settings.store.deadline_s))
    chosen = settings.server
    serving.serve(settings, host=chosen.host, port=chosen.port, workers=chosen.workers)


@app.command()
def models(
    config: ConfigOption = None,
    capabilities: Annotated[
        bool, typer.Option("--capabilities", help="Print all of what each model can do, and what it cannot.")
    ] = False,
) -> None:
    """List what clients may ask for, who serves it, and what it can do."""
    settings = _settings(config, {})

    from gateway.cli.capability_table import matrix
    from gateway.text_table import table
    from providers.registry import build

    built = {name: build(name, provider) for name, provider in settings.providers.items()}
    able = {
        name: model.capabilities_over(built[model.provider].capabilities) for name, model in settings.models.items()
    }
    if capabilities:
        typer.echo("\n".join(matrix(able)))
        return
    rows = [("MODEL", "PROVIDER", "UPSTREAM MODEL", "CAPABILITIES")]
    for name, model in settings.models.items():
        flags = [field.name for field in fields(able[name]) if getattr(able[name], field.name) is True]
        rows.append((name, model.provider, model.model or "the same", " ".join(flags)))
    typer.echo("\n".join(table(rows)))


@app.command(name="check-config")
def check_config(file: Annotated[Path, typer.Argument(help="The configuration to check.")]) -> None:
    """Say whether a configuration can be used; if not, everything that is wrong with it."""
    settings = _settings(file, {})

    from gateway.config.own_address import pathless

    for hint in pathless(settings.providers):
        typer.echo(f"{file}: warning: {hint}", err=True)
    keys = settings.auth.keys if settings.auth else ()
    counts = ((settings.providers, "provider"), (settings.models, "model"), (keys, "key"))
    typer.echo(f"{file}: ok: {', '.join(_count(len(what), word) for what, word in counts)}")


@app.command()
def migrate(config: ConfigOption = None) -> None:
    """Bring the database to this version. Serving refuses one that is not, except a SQLite file, which it brings."""
    settings = _settings_with_store(config)

    from gateway.state.database.migrate import migrate as run

    assert settings.store.url is not None
    typer.echo(f"the database is of version {_with_store(run(settings.store.url))}")


@app.command()
def doctor(
    config: ConfigOption = None,
    model: Annotated[list[str] | None, typer.Option(help="A model to examine; may be given again.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    html: Annotated[Path | None, typer.Option(help="Write a page with the report to this file.")] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds for each request.")] = 120.0,
) -> None:
    """Try what every model can do through the gateway. Exits with 1 when something that is declared fails."""
    settings = _settings(config, {})

    from gateway.doctor.checks.subjects import NothingToExamine
    from gateway.doctor.command import run
    from gateway.doctor.local_gateway import NotStarted

    if html is not None:
        _refuse_unwritable(html)
    try:
        healthy = run(settings, model or (), deadline_s=timeout, as_json=as_json, html=html)
    except NothingToExamine as nothing:
        _refuse(str(nothing))
    except NotStarted as failure:
        typer.echo(str(failure), err=True)
        healthy = False
    raise typer.Exit(0 if healthy else 1)


OwnerOption = Annotated[str, typer.Option("--owner", help="Whose: the name of a key, or `anonymous`.")]


@app.command()
def erase(owner: OwnerOption, config: ConfigOption = None) -> None:
    """Delete everything that is stored for one owner, running or not."""
    settings = _settings_with_store(config)

    from gateway.cli.owner_data import erase as run

    typer.echo(f"erased {_count(_with_store(run(settings, owner)), 'object')} of {owner}")


@app.command()
def export(owner: OwnerOption, config: ConfigOption = None) -> None:
    """Print everything that is stored for one owner: one JSON object a line."""
    settings = _settings_with_store(config)

    from gateway.cli.owner_data import export as run

    _with_store(run(settings, owner, sys.stdout.buffer))


def _settings_with_store(config: Path | None) -> Settings:
    settings = _settings(config, {})
    if settings.store.url is None:
        _refuse("nothing is stored: the config has no store.url")
    return settings


def _with_store(work: Coroutine[Any, Any, _ResultT]) -> _ResultT:
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
        _refuse(str(error))


def _settings(config: Path | None, server: dict[str, Any]) -> Settings:
    if config is None and DEFAULT_CONFIG.exists():
        config = DEFAULT_CONFIG
    try:
        if config is not None:
            return settings_of.load(config, server=server)
        return settings_of.find(server=server)
    except ConfigError as error:
        _refuse(str(error))


def _refuse_unwritable(file: Path) -> None:
    is_new = not file.exists()
    try:
        file.open("a").close()
        if is_new:
            file.unlink()
    except OSError as error:
        _refuse(f"{file} cannot be written: {error.strerror}")


def _refuse(why: str) -> NoReturn:
    typer.echo(why, err=True)
    raise typer.Exit(2)


def _installed_version() -> str:
    try:
        return metadata.version("responses-gateway")
    except metadata.PackageNotFoundError:
        return "(run from its source, not installed)"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
