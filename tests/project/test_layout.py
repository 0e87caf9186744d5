"""The tests of a module are found by its path: `tests/unit/` mirrors the folders of the code.

A file may test one topic of a module: `test_<module>_<topic>.py`. The files of a module with many topics may be in a
folder with its name.
"""

from pathlib import Path

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "tests/unit"

CROSS_CUTTING = {
    "gateway/planning/every_field/test_every_field.py": "combines the request fields of every API with every upstream",
    "translation/test_stable_order.py": "compares the bodies that all dialects build in several processes",
}
"""Test file -> why it is named after no module."""


def mirrors_a_module(file: Path) -> bool:
    """Whether a file of tests is named after a module or package. `file` is relative to `tests/unit/`."""
    root = UNIT if file.parts[0] == "support" else ROOT
    words = file.stem.removeprefix("test_").split("_")
    names = ["_".join(words[:count]) for count in range(len(words), 0, -1)]
    paths = [root / file.with_name(name) for name in names]
    modules = [path.with_suffix(".py") for path in (*paths, root / file.parent)]
    packages = [path / "__init__.py" for path in paths]
    return any(path.is_file() for path in (*modules, *packages))


def test_unit_tests_are_named_after_the_module_that_they_test() -> None:
    files = [file.relative_to(UNIT) for file in sorted(UNIT.rglob("test_*.py"))]
    misplaced = [str(file) for file in files if not mirrors_a_module(file)]
    assert [file for file in misplaced if file not in CROSS_CUTTING] == [], (
        "these files of tests/unit/ are named after no module. The tests of `gateway/http/body.py` are in "
        "`gateway/http/test_body.py` or `gateway/http/test_body_<topic>.py`. If a file tests no single module, list it "
        "in CROSS_CUTTING with the reason."
    )
    assert sorted(CROSS_CUTTING.keys() - misplaced) == [], "these files in CROSS_CUTTING do not exist or need no entry"
