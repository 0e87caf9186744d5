"""Implements the command `responses-gateway doctor`: progress, report and the HTML page."""

import logging
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import typer

from gateway.config.settings import Settings
from gateway.doctor.checks.verdicts import Diagnosis
from gateway.doctor.embeddings import examine_embeddings
from gateway.doctor.file_parser import examine_parser
from gateway.doctor.file_storage import examine_storage
from gateway.doctor.html_report import render_html
from gateway.doctor.mcp_servers import examine_servers
from gateway.doctor.part_diagnosis import render_parts
from gateway.doctor.report_origin import ReportOrigin, describe_origin, save_results
from gateway.doctor.runner import ServeLocally, count_checks, diagnose
from gateway.doctor.search_engine import examine_engine
from gateway.doctor.text_report import render_json as rendered_json
from gateway.doctor.text_report import render_text
from gateway.logs import configure_logs

_COLOURS: Final = {"pass": "green", "fail": "red", "refused": "cyan", "skipped": "yellow"}
_LABEL_WIDTH: Final = 40
_ALARM_INTERVAL_S: Final = 0.5


def run_doctor(
    settings: Settings,
    names: Sequence[str],
    serve: ServeLocally,
    *,
    deadline_s: float,
    as_json: bool,
    html: Path | None,
) -> bool:
    """Examines the models, prints the report, saves the results, and writes the page if `html` names a file.

    Without `names`, the MCP servers, the search engine, the bucket, the model of embeddings and the parser of files of
    the configuration are examined too.

    Returns whether no check failed and the page could be written. If stderr is a terminal, it shows the progress. The
    gateway's error logs are written there too. Raises NoModelsSelected, and what `serve` raises.
    """
    steps = count_checks(settings, names)
    configure_logs(logging.ERROR)
    with interrupt_waits(), _draw_progress(steps) as on_step:
        diagnoses = diagnose(settings, names, serve, deadline_s, on_step)
        servers = [] if names else examine_servers(settings)
        backends = (
            {}
            if names
            else {
                "web_search": examine_engine(settings),
                "files": examine_storage(settings),
                "embeddings": examine_embeddings(settings),
                "parser": examine_parser(settings),
            }
        )
        others = {key: diagnosis for key, diagnosis in backends.items() if diagnosis is not None}
    origin = describe_origin(settings)
    typer.echo(
        rendered_json(
            diagnoses,
            origin,
            [server.as_json() for server in servers],
            {key: diagnosis.as_json() for key, diagnosis in others.items()},
        ).decode()
        if as_json
        else render_text(diagnoses, _colour_verdict, typer.get_terminal_size().columns)
    )
    examined = [*servers, *others.values()]
    if examined and not as_json:
        typer.echo(render_parts(examined))
    if settings.server.doctor_report is not None:
        _save_results(Path(settings.server.doctor_report), diagnoses, origin)
    is_written = html is None or _write_page(html, render_html(diagnoses, origin, examined))
    has_failures = any(each.failed for each in diagnoses) or any(each.failed for each in examined)
    return is_written and not has_failures


def _save_results(file: Path, diagnoses: Sequence[Diagnosis], origin: ReportOrigin) -> None:
    """Saves the results for the server's home page. If that fails, the report has been printed nevertheless."""
    try:
        save_results(file, diagnoses, origin)
    except OSError as error:
        typer.echo(f"server.doctor_report: {file} cannot be written: {error.strerror}", err=True)


def _write_page(file: Path, page: str) -> bool:
    """Writes the page. Returns whether that succeeded; the report has been printed before."""
    try:
        file.write_text(page, encoding="utf-8")
    except OSError as error:
        typer.echo(f"{file} cannot be written: {error.strerror}", err=True)
        return False
    typer.echo(f"the report is in {file}", err=True)
    return True


def _colour_verdict(verdict: str) -> str:
    """Returns the verdict in colour. `typer.echo` removes colours if the output is no terminal."""
    return typer.style(verdict, fg=_COLOURS[verdict], bold=True if verdict == "fail" else None)


@contextmanager
def _draw_progress(steps: int) -> Iterator[Callable[[str], None]]:
    """Draws a progress bar. Yields a function to be called with the name of each step before the step."""
    if not sys.stderr.isatty():
        yield lambda step: None
        return
    with typer.progressbar(
        length=steps, label="starting".ljust(_LABEL_WIDTH), file=sys.stderr, show_eta=False, show_pos=True, width=24
    ) as bar:
        has_begun = False

        def on_step(step: str) -> None:
            nonlocal has_begun
            bar.label = step.ljust(_LABEL_WIDTH)[:_LABEL_WIDTH]
            bar.update(1 if has_begun else 0)
            bar.render_progress()  # the label has changed, even if the count is the same
            has_begun = True

        yield on_step
        bar.update(1)


@contextmanager
def interrupt_waits() -> Iterator[None]:
    """In the main thread, raises KeyboardInterrupt at most half a second after the signal.

    Python records a signal that arrives just before a system call, but the call is not interrupted: the exception would
    come only after the upstream has replied. Therefore a timer interrupts waiting calls regularly. Python then resumes
    them (PEP 475).
    """
    if not hasattr(signal, "setitimer"):
        yield
        return
    previous_handler = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, _ALARM_INTERVAL_S, _ALARM_INTERVAL_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous_handler)
