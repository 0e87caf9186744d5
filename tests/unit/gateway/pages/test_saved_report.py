"""gateway/pages/saved_report: the doctor's last results on disk."""

import os
from pathlib import Path

import pytest

from gateway.pages.saved_report import SavedCheck, SavedResult, UnreadableReport, merge_results, read_report


def result(model: str, date: str = "2026-11-23T08:00:00Z") -> SavedResult:
    checks = (SavedCheck(title="Text", verdict="pass"),)
    return SavedResult(model=model, provider="p", date=date, product_version="1", config_digest="abc", checks=checks)


def models_in(file: Path) -> list[tuple[str, str]]:
    report = read_report(file)
    assert report is not None
    return [(result.model, result.date) for result in report.results]


def test_results_of_other_models_remain(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    assert read_report(file) is None
    merge_results(file, [result("a", "1"), result("b", "1")])
    merge_results(file, [result("b", "2")])
    assert models_in(file) == [("b", "2"), ("a", "1")]
    assert os.listdir(tmp_path) == ["report.json"]


@pytest.mark.parametrize("content", ["", "[]", "{", '{"version": 2}', '{"version": 1, "results": [{}]}'])
def test_a_file_that_is_no_report_is_named_and_replaced(content: str, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    file.write_text(content)
    with pytest.raises(UnreadableReport, match=r"report\.json is not a report"):
        read_report(file)
    merge_results(file, [result("a")])
    assert [model for model, _ in models_in(file)] == ["a"]


def test_a_file_that_is_too_large_or_a_folder_is_named(tmp_path: Path) -> None:
    file = tmp_path / "large.json"
    with file.open("wb") as stream:
        stream.truncate(17 * 1024 * 1024)
    with pytest.raises(UnreadableReport, match="too large"):
        read_report(file)
    with pytest.raises(UnreadableReport, match="cannot be read"):
        read_report(tmp_path)


def test_a_missing_folder_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        merge_results(tmp_path / "nowhere/report.json", [result("a")])
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="directory"):
        merge_results(tmp_path / "folder", [result("a")])
    assert os.listdir(tmp_path) == ["folder"]
