"""The command `responses-gateway`."""

import asyncio
import logging
import sys
from collections.abc import Coroutine, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import fields
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer

from gateway.config import settings as settings_of
from gateway.config.settings import Overrides, Settings
from gateway.config.yaml_file import ConfigError
from gateway.version import read_installed_version

app = typer.Typer(
    name="responses-gateway",
    help="One server in front of any model. Clients speak OpenAI's Responses or Chat Completions, Anthropic's, "
    "Gemini's or Ollama's API, AG-UI or POST /generate.",
    no_args_is_help=True,
    rich_markup_mode=None,  # its boxes show a type for switches, such as `--help <bool>`
    context_settings={"max_content_width": 110},
    add_completion=False,
    pretty_exceptions_enable=False,
)

DEFAULT_CONFIG = Path("config.yaml")

_ResultT = TypeVar("_ResultT")

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="The configuration file. Default: ./config.yaml if it exists, else API keys and servers of this machine.",
    ),
]


def main() -> None:
    """Runs the console command. Exits with 2 if the configuration cannot be used."""
    app()


@app.callback(invoke_without_command=True)
def _print_version(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(f"responses-gateway {read_installed_version()}")
        raise typer.Exit


@app.command()
def serve(
    config: ConfigOption = None,
    host: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="The address to listen on. Overrides server.host.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            envvar="GATEWAY_PORT",
            help="The port to listen on. Overrides server.port; 0 takes a free one.",
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="The number of server processes. Overrides server.workers.")
    ] = None,
    linger_s: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            envvar="GATEWAY_LINGER_S",
            help="Seconds after SIGTERM in which new requests are served. Overrides server.linger_s.",
        ),
    ] = None,
    drain_s: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            envvar="GATEWAY_DRAIN_S",
            help="Seconds in which open requests may end. Overrides server.drain_s.",
        ),
    ] = None,
    metrics_listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            envvar="GATEWAY_METRICS_LISTEN",
            help="The address of a listener for /metrics. Overrides metrics.listen.",
        ),
    ] = None,
) -> None:
    """Run the server until SIGTERM or SIGINT. SIGHUP makes it load its keys, providers, models and tools again."""
    server_options = {"host": host, "port": port, "workers": workers, "linger_s": linger_s, "drain_s": drain_s}
    overrides: dict[str, dict[str, Any]] = {
        "server": {key: value for key, value in server_options.items() if value is not None},
        "metrics": {} if metrics_listen is None else {"listen": metrics_listen},
    }
    settings = _load_settings(config, overrides)

    from gateway.process import serving

    if settings.store.url is not None:
        with serving.hide_terminal_packages():
            from gateway.state.database.migrate import validate_database_schema
        needs_vectors = settings.tools.file_search.embeddings is not None
        checks = validate_database_schema(
            settings.store.url, deadline_s=settings.store.deadline_s, needs_vectors=needs_vectors
        )
        _run_store_command(settings, checks)
    server = settings.server
    load = partial(_read_settings, config, overrides)
    serving.serve_gateway(settings, load, host=server.host, port=server.port, workers=server.workers)


@app.command()
def models(
    config: ConfigOption = None,
    capabilities: Annotated[
        bool,
        typer.Option("--capabilities", help="Print every capability of each model, including those that it lacks."),
    ] = False,
) -> None:
    """List the models that clients may request. Prints their providers and capabilities too."""
    settings = _load_settings(config, {})

    from gateway.cli.capability_table import render_matrix
    from gateway.terminal_text import format_table
    from providers.registry import build_provider

    providers = {name: build_provider(name, provider) for name, provider in settings.providers.items()}
    rows = [(name, row) for name, model in settings.models.items() for row in model.rows]
    effective = [row.resolve_capabilities(providers[row.provider].capabilities) for _, row in rows]
    if capabilities:
        has_several = {name for name, model in settings.models.items() if len(model.rows) > 1}
        heads = [f"{name} {row.provider}:{row.model or name}" if name in has_several else name for name, row in rows]
        typer.echo("\n".join(render_matrix(dict(zip(heads, effective, strict=True)))))
        return
    lines = [("MODEL", "PROVIDER", "UPSTREAM MODEL", "CAPABILITIES")]
    for (name, row), known in zip(rows, effective, strict=True):
        flags = [field.name for field in fields(known) if getattr(known, field.name) is True]
        lines.append((name, row.provider, row.model or "the same", " ".join(flags)))
    typer.echo("\n".join(format_table(lines)))


@app.command()
def init(
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="The file to write.")] = DEFAULT_CONFIG,
) -> None:
    """Write a configuration file to begin with. It never changes an existing file."""
    text = files("gateway.cli").joinpath("starter.yaml").read_text()
    try:
        with file.open("x") as target:
            target.write(text)
    except FileExistsError:
        _exit_with_error(f"{file} exists, and is left as it is: name another file")
    except OSError as error:
        _exit_with_error(f"{file} cannot be written: {error.strerror}")
    option = "" if file == DEFAULT_CONFIG else f" --config {file}"
    typer.echo(f"wrote {file}: edit it, check it with `responses-gateway check-config {file}`,")
    typer.echo(f"and start the gateway with `responses-gateway serve{option}`")


@app.command(name="check-config")
def check_config(file: Annotated[Path, typer.Argument(metavar="FILE", help="The configuration to check.")]) -> None:
    """Check a configuration file. Prints every mistake in it, and warns about probable mistakes."""
    settings = _load_settings(file, {})

    from gateway.config.hints import find_hints
    from gateway.config.yaml_file import render_warnings

    for warning in render_warnings(file, find_hints(settings)):
        typer.echo(warning, err=True)
    keys = settings.auth.keys if settings.auth else ()
    counts = ((settings.providers, "provider"), (settings.models, "model"), (keys, "key"))
    typer.echo(f"{file}: ok: {', '.join(_format_count(len(entries), word) for entries, word in counts)}")


@app.command()
def migrate(config: ConfigOption = None) -> None:
    """Migrate the database to this version. `serve` requires it, except for a SQLite file, which it migrates itself."""
    settings = _load_settings_with_store(config)

    from gateway.state.database.migrate import migrate_database as run

    typer.echo(f"the database is of version {_run_store_command(settings, run(_require_store_url(settings)))}")


@app.command()
def doctor(
    config: ConfigOption = None,
    model: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A model to examine. Can be repeated.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the report to this file, as an HTML page.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Seconds for each request.")] = 120.0,
) -> None:
    """Test what each model can do through the gateway. Exits with 1 if a declared capability fails."""
    settings = _load_settings(config, {})

    from gateway.doctor.checks.subjects import NoModelsSelected
    from gateway.doctor.command import run_doctor
    from gateway.process.local_gateway import GatewayNotStarted, serve_locally

    if html is not None:
        _require_writable(html)
    try:
        healthy = run_doctor(settings, model or (), serve_locally, deadline_s=timeout, as_json=as_json, html=html)
    except NoModelsSelected as error:
        _exit_with_error(str(error))
    except GatewayNotStarted as error:
        typer.echo(str(error), err=True)
        healthy = False
    raise typer.Exit(0 if healthy else 1)


routes_app = typer.Typer(help="Explain where the turns of models go.", no_args_is_help=True)
app.add_typer(routes_app, name="routes")


@routes_app.command(name="explain")
def explain_routes(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The name that clients send.")],
    config: ConfigOption = None,
    key: Annotated[
        str | None, typer.Option(metavar="NAME", help="The name of a key: its models, and the owner of its sessions.")
    ] = None,
    request: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A request as JSON, of the Responses, Chat Completions or Messages API."),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(metavar="URL", help="A running server, whose state is reported."),
    ] = None,
    server_key: Annotated[
        str | None,
        typer.Option(metavar="KEY", envvar="GATEWAY_KEY", help="The key of an administrator of that server."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")] = False,
) -> None:
    """Explain which upstreams serve a model, and with which shares. Exits with 1 for an unknown model."""
    import orjson

    from gateway.cli.route_reports import ReportFailed, explain_model, fetch_report
    from gateway.errors import UnknownModel
    from gateway.upstreams.routing_report import render_routing_report
    from translation.errors import InvalidRequest

    try:
        if server is not None:
            report = fetch_report(server, model, server_key)
        else:
            body = None if request is None else orjson.loads(request.read_bytes())
            report = explain_model(_load_quiet_settings(config), model, key, body)
    except (UnknownModel, InvalidRequest, ReportFailed) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    except (OSError, orjson.JSONDecodeError) as error:
        _exit_with_error(f"{request} cannot be read: {error}")
    if as_json:
        typer.echo(orjson.dumps(report, option=orjson.OPT_INDENT_2).decode())
    else:
        typer.echo("\n".join(render_routing_report(report)))


mcp_app = typer.Typer(help="List and try the tools of the configured MCP servers.", no_args_is_help=True)
app.add_typer(mcp_app, name="mcp")


@mcp_app.command(name="list")
def list_mcp_tools(
    server: Annotated[
        list[str] | None, typer.Argument(metavar="[SERVER]...", help="Names of servers. Default: all of them.")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """List the tools of MCP servers as models know them. Exits with 1 if a server cannot be used."""
    settings = _load_quiet_settings(config)

    from gateway.cli.mcp_servers import list_server_tools
    from gateway.terminal_text import format_table

    with _exiting_on_fault():
        listed = _run_with_store(settings, list_server_tools(settings, server or ()))
    if not listed:
        _exit_with_error("no MCP servers are configured: write tools.mcp.servers")
    rows = [row for tools in listed for row in tools.rows]
    header = ("SERVER", "TOOL", "READ-ONLY", "APPROVAL", "DESCRIPTION")
    typer.echo("\n".join(format_table([header, *rows])))
    problems = [problem for tools in listed for problem in tools.problems]
    for problem in problems:
        typer.echo(problem, err=True)
    raise typer.Exit(1 if problems else 0)


@mcp_app.command(name="try")
def try_mcp_tool(
    server: Annotated[str, typer.Argument(metavar="SERVER", help="The name of the server.")],
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="The name of the tool.")],
    arguments: Annotated[str, typer.Argument(metavar="[JSON]", help="Its arguments, as a JSON object.")] = "{}",
    config: ConfigOption = None,
) -> None:
    """Call one tool of an MCP server, and print its result. Approvals do not apply. Exits with 1 if the call fails."""
    settings = _load_quiet_settings(config)

    from gateway.cli.mcp_servers import read_call_arguments, try_tool

    if (parsed := read_call_arguments(arguments)) is None:
        _exit_with_error(f"the arguments are not a JSON object: {arguments}")
    with _exiting_on_fault(server):
        result = _run_with_store(settings, try_tool(settings, server, tool, parsed))
    typer.echo(result.text)
    typer.echo(f"{'failed' if result.has_failed else 'ok'} after {result.ms:.0f} ms", err=True)
    raise typer.Exit(1 if result.has_failed else 0)


@mcp_app.command(name="pin")
def pin_mcp_tools(
    server: Annotated[str, typer.Argument(metavar="SERVER", help="The name of the server.")],
    config: ConfigOption = None,
) -> None:
    """Print the digests of a server's tools as they are now. They are the `pins` of its configuration."""
    settings = _load_quiet_settings(config)

    import yaml

    from gateway.cli.mcp_servers import pin_tools

    with _exiting_on_fault(server):
        pins = _run_with_store(settings, pin_tools(settings, server))
    typer.echo(yaml.safe_dump({"pins": dict(pins)}, sort_keys=False), nl=False)


@mcp_app.command(name="login")
def log_in_to_mcp_server(
    server: Annotated[str, typer.Argument(metavar="SERVER", help="The name of a server with `grant: login`.")],
    config: ConfigOption = None,
    port: Annotated[int, typer.Option(help="The port of this machine to which the browser is redirected.")] = 0,
    timeout: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="Seconds to wait for the login.")] = 300.0,
) -> None:
    """Log in to an MCP server in a browser. The tokens are stored, encrypted, for all replicas."""
    settings = _load_settings(config, {})
    own = settings.tools.mcp.servers.get(server)
    if own is None or own.auth.oauth is None or own.auth.oauth.grant != "login":
        _exit_with_error(f"the server {server!r} has no auth.oauth with grant: login")

    from gateway.cli.mcp_login import log_in

    def show_url(url: str) -> None:
        typer.echo(f"Open this address in a browser on this machine:\n{url}")

    with _exiting_on_fault(server):
        _run_store_command(settings, log_in(settings, server, port, show_url, timeout))
    typer.echo(f"logged in to {server}")


def _load_quiet_settings(config: Path | None) -> Settings:
    """Returns the settings for a command that reports its own errors."""
    from gateway.logs import configure_logs

    settings = _load_settings(config, {})
    configure_logs(logging.ERROR, settings.log.format)
    return settings


@contextmanager
def _exiting_on_fault(server: str = "") -> Iterator[None]:
    """Exits with 1 and the reason if a request to a server fails in the block, with 2 if there is no such server."""
    from gateway.tools.mcp.errors import McpFault
    from gateway.tools.operator_servers.servers import UnknownServer

    try:
        yield
    except UnknownServer as error:
        _exit_with_error(str(error))
    except McpFault as fault:
        typer.echo(f"{server}: {fault}", err=True)
        raise typer.Exit(1) from None


OwnerOption = Annotated[
    str, typer.Option("--owner", metavar="NAME", help="The owner: the name of a key, or `anonymous`.")
]


@app.command()
def erase(owner: OwnerOption, config: ConfigOption = None) -> None:
    """Delete everything that is stored for one owner. Its running responses are deleted too."""
    settings = _load_settings_with_store(config)

    from gateway.blobs.open_blobs import open_blobs
    from gateway.files.blob_keeper import remove_unused_blobs
    from gateway.state.sql.store import SqlStore

    async def erase_owner() -> int:
        async with aclosing(SqlStore(settings.store, settings.background)) as store:
            await store.open()
            erased_count = await store.owner_data.erase_owner(owner)
            await remove_unused_blobs(store.files, open_blobs(settings), owner=owner)
            return erased_count

    typer.echo(f"erased {_format_count(_run_store_command(settings, erase_owner()), 'object')} of {owner}")


@app.command()
def export(owner: OwnerOption, config: ConfigOption = None) -> None:
    """Print everything that is stored for one owner. Each line is one JSON object."""
    settings = _load_settings_with_store(config)

    import orjson

    from gateway.state.sql.store import SqlStore

    async def export_owner() -> None:
        async with aclosing(SqlStore(settings.store, settings.background)) as store:
            await store.open()
            async with aclosing(store.owner_data.export_owner(owner)) as objects:
                async for stored_object in objects:
                    sys.stdout.buffer.write(orjson.dumps(stored_object) + b"\n")
        sys.stdout.buffer.flush()

    _run_store_command(settings, export_owner())


def _load_settings_with_store(config: Path | None) -> Settings:
    settings = _load_settings(config, {})
    _require_store_url(settings)
    return settings


def _require_store_url(settings: Settings) -> str:
    if settings.store.url is None:
        _exit_with_error("nothing is stored: the config has no store.url")
    return settings.store.url


def _run_store_command(settings: Settings, work: Coroutine[Any, Any, _ResultT]) -> _ResultT:
    """Returns the result of `work`. Exits with 1 if the database cannot be used, with 2 if its schema does not fit."""
    from gateway.logs import configure_logs

    configure_logs(settings.log.level_number, settings.log.format)  # to stderr: stdout may have exported objects
    return _run_with_store(settings, work)


def _run_with_store(settings: Settings, work: Coroutine[Any, Any, _ResultT]) -> _ResultT:
    """Runs `work` with the store, without configuring logs. Exits as `_run_store_command` does."""
    from gateway.errors import StoreUnavailable
    from gateway.state.database.failures import describe_unusable
    from gateway.state.values import SchemaMismatch

    try:
        return asyncio.run(work)
    except StoreUnavailable as error:
        cause, url = error.__cause__, settings.store.url
        typer.echo(str(error) if cause is None or url is None else describe_unusable(cause, url), err=True)
        raise typer.Exit(1) from None
    except SchemaMismatch as error:
        _exit_with_error(str(error))


def _load_settings(config: Path | None, overrides: Overrides) -> Settings:
    try:
        return _read_settings(config, overrides)
    except ConfigError as error:
        _exit_with_error(str(error))


def _read_settings(config: Path | None, overrides: Overrides, running: Settings | None = None) -> Settings:
    """Returns the settings of a file or of this machine. Raises ConfigError.

    With `running`, only the reloadable sections may differ from these settings.
    """
    if config is None and DEFAULT_CONFIG.exists():
        config = DEFAULT_CONFIG
    if config is not None:
        return settings_of.load_settings(config, overrides=overrides, running=running)
    return settings_of.discover_settings(overrides=overrides, running=running)


def _require_writable(file: Path) -> None:
    is_new = not file.exists()
    try:
        file.open("a").close()
        if is_new:
            file.unlink()
    except OSError as error:
        _exit_with_error(f"{file} cannot be written: {error.strerror}")


def _exit_with_error(message: str) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(2)


def _format_count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
