"""How much work a JSON schema is, before anything is held against it."""

from typing import Any, Final

from translation.representation.json_types import Json

_MOST: Final = 20_000
_DEEPEST: Final = 200
_UNFOLLOWED: Final = ("$dynamicRef", "$recursiveRef", "$id")


class Endless(Exception):
    """The schema is too large, or refers in ways that hide how large it is."""


def places(schema: Json) -> int:
    """How many places of a schema one value can be held against, each reference counted as what it stands for.

    A few definitions that each refer twice to the next are as much work as a million. Raises Endless.
    """
    return _Walk(schema).count()


class _Walk:
    def __init__(self, root: Json) -> None:
        self._root = root
        self._places = 0
        self._following: list[str] = []

    def count(self) -> int:
        self._enter(self._root, 0)
        return self._places

    def _enter(self, node: Any, depth: int) -> None:
        if not isinstance(node, dict | list):
            return
        self._places += 1
        if self._places > _MOST or depth > _DEEPEST:
            raise Endless
        if isinstance(node, list):
            for each in node:
                self._enter(each, depth + 1)
            return
        for key, value in node.items():
            if key == "$ref" and isinstance(value, str):
                self._follow(value, depth)
            elif key in _UNFOLLOWED and isinstance(value, str) and node is not self._root:
                raise Endless
            else:
                self._enter(value, depth + 1)

    def _follow(self, target: str, depth: int) -> None:
        if target in self._following:
            return  # it ends where the value ends
        self._following.append(target)
        self._enter(self._at(target), depth + 1)
        self._following.pop()

    def _at(self, target: str) -> Any:
        if target != "#" and not target.startswith("#/"):
            raise Endless
        node: Any = self._root
        for step in target.split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(node, dict) or key not in node:
                raise Endless
            node = node[key]
        return node
