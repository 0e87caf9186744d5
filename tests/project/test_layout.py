"""The tests of a module are found by its path, because the folders of tests mirror those of the code.

A file may test one topic of a module: `test_<module>_<topic>.py`. The files of a module with many topics may be in a
folder with its name.
"""

from pathlib import Path

ROOT = Path(__file__).parents[2]
MIRRORS = {
    "tests/unit": "",
    "tests/state/database": "gateway/state/database",
    "tests/state/records": "gateway/state/records",
    "tests/state/sql": "gateway/state/sql",
}
"""Folder of tests -> the folder of code that it mirrors. Tests in `tests/state/` share database servers."""

CROSS_CUTTING = {
    "tests/unit/gateway/planning/every_field/test_every_field.py": "combines fields of every API with every upstream",
    "tests/unit/gateway/planning/every_field/test_unknown_keys.py": "does so with a key in each object of a request",
    "tests/unit/gateway/test_cancelled_openings.py": "cancels everybody who opens a file, a socket or a process",
    "tests/unit/translation/test_stable_order.py": "compares the bodies that all dialects build in several processes",
}
"""Test file -> why it is named after no module."""


def mirrors_a_module(file: Path, code: Path) -> bool:
    """Whether a file of tests is named after a module or package. `file` is relative to the mirror of `code`."""
    root = ROOT / "tests/unit" if file.parts[0] == "support" else code
    words = file.stem.removeprefix("test_").split("_")
    paths = [root / file.with_name("_".join(words[:count])) for count in range(len(words), 0, -1)]
    modules = [path.with_suffix(".py") for path in (*paths, root / file.parent)]
    packages = [path / "__init__.py" for path in paths]
    return any(path.is_file() for path in (*modules, *packages))


def test_unit_tests_are_named_after_the_module_that_they_test() -> None:
    misplaced = [
        str(file.relative_to(ROOT))
        for tests, code in MIRRORS.items()
        for file in sorted((ROOT / tests).rglob("test_*.py"))
        if not mirrors_a_module(file.relative_to(ROOT / tests), ROOT / code)
    ]
    assert [file for file in misplaced if file not in CROSS_CUTTING] == [], (
        "these files are named after no module. The tests of `gateway/http/body.py` are in "
        "`tests/unit/gateway/http/test_body.py` or `test_body_<topic>.py` beside it. If a file tests no single module, "
        "list it in CROSS_CUTTING with the reason."
    )
    assert sorted(CROSS_CUTTING.keys() - misplaced) == [], "these files in CROSS_CUTTING do not exist or need no entry"
