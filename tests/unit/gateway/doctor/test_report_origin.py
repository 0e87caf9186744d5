"""The origin of a report, and the saved results."""

import re
from pathlib import Path

from gateway.config.settings import parse_settings
from gateway.doctor.report_origin import describe_origin, save_results
from gateway.pages.saved_report import read_report
from tests.unit.gateway.doctor.diagnoses import FAILING, ORIGIN


def test_the_origin_of_a_report_names_no_key_and_changes_with_the_models() -> None:
    provider = {"type": "openai", "api_key": "sk-first"}
    tree = {"providers": {"p": provider}, "models": {"m": {"provider": "p"}}}
    first = describe_origin(parse_settings(tree, environ={}))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", first.date)

    def digest(**changes: object) -> str:
        return describe_origin(parse_settings({**tree, **changes}, environ={})).config_digest

    assert digest(server={"port": 9999}, store={"url": None}) == first.config_digest
    assert digest(providers={"p": {**provider, "api_key": "sk-second"}}) == first.config_digest
    assert digest(models={"n": {"provider": "p"}}) != first.config_digest


def test_saved_results_have_advice_and_no_requests(tmp_path: Path) -> None:
    save_results(tmp_path / "report.json", [FAILING], ORIGIN)
    content = (tmp_path / "report.json").read_text()
    report = read_report(tmp_path / "report.json")
    assert report is not None
    [result] = report.results
    assert (result.model, result.count("fail"), result.date) == ("failing", 3, ORIGIN.date)
    assert "Mend <it>." in content
    assert "POST /v1" not in content
