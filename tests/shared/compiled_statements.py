"""Shares compiled SQL among the databases of this process: each would compile all of its statements anew.

That takes a quarter of the start of a server with a store, and tests start hundreds of them.
"""

from typing import TYPE_CHECKING, Any

from sqlalchemy.engine import Engine, create_engine
from sqlalchemy.util import LRUCache

if TYPE_CHECKING:
    import pytest

_MOST_STATEMENTS = 5000


class _StatementCache(LRUCache[Any, Any]):
    """The statements of one driver. Their keys begin with the dialect, an object of each engine, which is left out."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(key[1:], default)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key[1:], value)


def share_compiled_statements(patch: "pytest.MonkeyPatch") -> None:
    """Gives each engine the statements that earlier engines of its driver have compiled, as long as the patch lasts."""
    caches: dict[tuple[str, str], _StatementCache] = {}

    def create_sharing_engine(*arguments: Any, **options: Any) -> Engine:
        engine = create_engine(*arguments, **options)
        driver = (engine.dialect.name, engine.dialect.driver)
        engine._compiled_cache = caches.setdefault(driver, _StatementCache(_MOST_STATEMENTS))
        return engine

    patch.setattr("sqlalchemy.ext.asyncio.engine._create_engine", create_sharing_engine)
