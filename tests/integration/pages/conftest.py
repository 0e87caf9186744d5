"""A browser, and a folder with a report of the doctor."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.doctor.html_report import render_html
from gateway.doctor.report_origin import save_results
from tests.browser import Tab, find_chromium, open_browser
from tests.integration.pages.reported import ORIGIN, REPORTED


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    chromium = find_chromium()
    assert chromium is not None
    with open_browser(chromium) as tab:
        yield tab


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    save_results(folder / "report.json", REPORTED, ORIGIN)
    (folder / "report.html").write_text(render_html(REPORTED, ORIGIN))
    return folder
