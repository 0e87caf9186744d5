"""Estimates the cost of validating against a JSON schema."""

from typing import Any, Final

from translation.representation.json_types import Json

_MAX_SUBSCHEMAS: Final = 20_000
_MAX_DEPTH: Final = 200
_UNSUPPORTED_KEYWORDS: Final = ("$dynamicRef", "$recursiveRef", "$id")


class SchemaTooLarge(Exception):
    """The schema is too large, or has references whose size cannot be counted."""


class TooManySubschemas(SchemaTooLarge):
    """The schema stands for too many subschemas, with each reference counted as the schema that it refers to."""


def count_subschemas(schema: Json) -> int:
    """Returns the number of subschemas, with each reference counted as the schema that it refers to.

    References must be counted so, because a few definitions that each refer twice to the next one stand for a million
    subschemas. Raises SchemaTooLarge.
    """
    return _SchemaWalk(schema).count()


class _SchemaWalk:
    def __init__(self, root: Json) -> None:
        self._root = root
        self._subschemas = 0
        self._following: list[str] = []

    def count(self) -> int:
        self._enter(self._root, 0)
        return self._subschemas

    def _enter(self, node: Any, depth: int) -> None:
        if not isinstance(node, dict | list):
            return
        self._subschemas += 1
        if self._subschemas > _MAX_SUBSCHEMAS:
            raise TooManySubschemas
        if depth > _MAX_DEPTH:
            raise SchemaTooLarge
        if isinstance(node, list):
            for entry in node:
                self._enter(entry, depth + 1)
            return
        for key, value in node.items():
            if key == "$ref" and isinstance(value, str):
                self._follow(value, depth)
            elif key in _UNSUPPORTED_KEYWORDS and isinstance(value, str) and node is not self._root:
                raise SchemaTooLarge
            else:
                self._enter(value, depth + 1)

    def _follow(self, target: str, depth: int) -> None:
        if target in self._following:
            return  # a recursive reference: the depth of the value limits it
        self._following.append(target)
        self._enter(self._resolve_reference(target), depth + 1)
        self._following.pop()

    def _resolve_reference(self, target: str) -> Any:
        if target != "#" and not target.startswith("#/"):
            raise SchemaTooLarge
        node: Any = self._root
        for step in target.split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(node, dict) or key not in node:
                raise SchemaTooLarge
            node = node[key]
        return node
