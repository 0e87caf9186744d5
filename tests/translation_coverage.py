"""A pytest plugin that measures which branches of `translation/` its own tests take, beside all other tests of a run.

To measure a test doubles its time, so it is done for these tests alone. They run before the others in each process:
what others would leave in the caches of `translation/`, these would no longer execute.
"""

import pkgutil
from functools import cache
from importlib import import_module
from pathlib import Path

import coverage
import pytest

import translation

_TESTS = Path(__file__).parent
_MEASURED = (
    _TESTS / "unit/translation",
    _TESTS / "unit/gateway/replies/test_reply_streams_ways.py",
)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Measurement())


class _Measurement:
    """Measures one process, and writes a data file of its own."""

    def __init__(self) -> None:
        self._coverage = coverage.Coverage(data_suffix=True)
        self._active = False
        self._set_active(True)
        for module in pkgutil.walk_packages(translation.__path__, "translation."):
            import_module(module.name)
        self._set_active(False)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: not _is_measured(item))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        self._set_active(_is_measured(item))

    def pytest_unconfigure(self) -> None:
        self._set_active(False)
        self._coverage.save()

    def _set_active(self, active: bool) -> None:
        if active and not self._active:
            self._coverage.start()
        elif self._active and not active:
            self._coverage.stop()
        self._active = active


def _is_measured(item: pytest.Item) -> bool:
    return _has_measured_tests(item.path)


@cache
def _has_measured_tests(file: Path) -> bool:
    return any(file.is_relative_to(path) for path in _MEASURED)
